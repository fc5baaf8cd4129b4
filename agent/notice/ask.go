package notice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/platform"
)

// settle is how long a question has been shown before an answer to it counts: who presses
// keys at the moment that it appears, or takes another's place, did not answer it.
const settle = time.Second

// asked is what the person is asked, under Board.mu.
type asked struct {
	list  []wire.Question
	gone  map[[32]byte]bool // put away by the person, or being answered
	up    wire.Question     // what is shown; without an ID: nothing
	since time.Time         // since when
	said  []platform.Notice // what became of answers, to be shown
}

// Ask shows the first of these questions, in place of those before. They are not written to
// the status file: what is asked is for who sits here alone.
func (b *Board) Ask(list []wire.Question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ask.list = slices.Clone(list)
	still := map[[32]byte]bool{}
	for i := range list {
		if d := list[i].Digest(); b.ask.gone[d] {
			still[d] = true
		}
	}
	b.ask.gone = still
	if b.ask.up.ID != "" && !slices.ContainsFunc(list, func(q wire.Question) bool { return q.Digest() == b.ask.up.Digest() }) {
		b.ask.up = wire.Question{} // at once: the notice follows
	}
	b.asks()
}

// Answer takes the question that is shown as being answered, so that it is answered once.
// The error says why there is none to answer, or not like that.
func (b *Board) Answer(allow bool) (wire.Question, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.ask.up
	switch {
	case q.ID == "":
		return q, capabilities.Errorf(capabilities.CodeNotFound, "no question is shown")
	case b.opts.Now().Sub(b.ask.since) < settle:
		return q, capabilities.Errorf(capabilities.CodeConflict, "the question appeared only now; read it, and press the keys again")
	case b.opts.Now().UnixMilli() >= q.Expires:
		return q, capabilities.Errorf(capabilities.CodeConflict, "nobody is asked any more")
	case allow && q.NoOnly:
		return q, capabilities.Errorf(capabilities.CodeForbidden,
			"this question is more than a notice can show: allow it in the console, from another device")
	}
	b.ask.gone[q.Digest()] = true
	b.ask.up = wire.Question{}
	b.asks()
	return q, nil
}

// Answered shows what became of an answer. One that did not count leaves its question as it was.
func (b *Board) Answered(id string, allow bool, problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := platform.Notice{Title: "Denied"}
	if allow {
		n.Title = "Allowed, this once"
	}
	for i := range b.ask.list {
		q := &b.ask.list[i]
		if q.ID != id {
			continue
		}
		n.Body = q.Who + ": " + q.What
		if problem != "" {
			delete(b.ask.gone, q.Digest())
		}
	}
	if problem != "" {
		n = platform.Notice{Title: "Your answer does not count", Body: sentence(problem)}
	}
	b.ask.said = append(b.ask.said, n)
	b.asks()
}

func sentence(s string) string {
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// asks has the shower look.
func (b *Board) asks() {
	select {
	case b.asking <- struct{}{}:
	default:
	}
}

// question returns what is to be shown now and how many more wait; false: nothing.
func (b *Board) question() (q wire.Question, more int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.ask.list {
		if b.ask.gone[b.ask.list[i].Digest()] {
			continue
		}
		if !ok {
			q, ok = b.ask.list[i], true
		} else {
			more++
		}
	}
	return q, more, ok
}

// isUp notes what is shown; the zero Question for nothing.
func (b *Board) isUp(q wire.Question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.ID != "" && !slices.ContainsFunc(b.ask.list, func(o wire.Question) bool { return o.Digest() == q.Digest() }) {
		q = wire.Question{} // it was closed while it was put up
	}
	if q.ID == "" || q.Digest() != b.ask.up.Digest() || b.ask.up.ID == "" {
		b.ask.since = b.opts.Now()
	}
	b.ask.up = q
}

// putAway notes that the person does not want to be asked this here.
func (b *Board) putAway() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ask.up.ID != "" {
		b.ask.gone[b.ask.up.Digest()] = true
		b.ask.up = wire.Question{}
	}
	b.asks()
}

func (b *Board) results() []platform.Notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.ask.said
	b.ask.said = nil
	return all
}

// asks brings the question that is shown in step with the board.
func (s *shower) asks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, showWithin)
	defer cancel()
	for _, n := range s.board.results() {
		if _, err := s.opts.Notifier.Show(ctx, 0, n); err != nil {
			s.opts.Log.Warn("notice.answer", "err", err)
		}
	}
	q, more, ok := s.board.question()
	if !ok {
		s.board.isUp(wire.Question{})
		if s.askID != 0 {
			if err := s.opts.Notifier.Withdraw(ctx, s.askID); err != nil {
				s.opts.Log.Debug("notice.withdraw", "err", err)
			}
		}
		s.askID, s.askText = 0, ""
		return
	}
	n := s.question(&q, more)
	if text := n.Title + "\n" + n.Body; text != s.askText {
		id, err := s.opts.Notifier.Show(ctx, s.askID, n)
		if err != nil {
			// A question that is not seen is not answered here; the console and other devices are
			// there.
			s.board.isUp(wire.Question{})
			s.askText = ""
			if errors.Is(err, platform.ErrNoNotices) {
				s.opts.Log.Info("notice.question", "approval", q.ID, "why", err)
			} else {
				s.opts.Log.Warn("notice.question", "approval", q.ID, "err", err)
			}
			return
		}
		s.askID, s.askText = id, text
	}
	s.board.isUp(q)
}

// question makes the notice of a question.
func (s *shower) question(q *wire.Question, more int) platform.Notice {
	n := platform.Notice{Title: q.Who + " asks: " + q.What, Lasting: true}
	lines := slices.Clone(q.Lines)
	if q.NoOnly {
		lines = append(lines, "This is more than a notice can show: allow it in the console, from another device.")
	} else {
		lines = append(lines, "Yes, this once: "+s.opts.Yes)
	}
	lines = append(lines, "No: "+s.opts.No)
	switch {
	case more == 1:
		lines = append(lines, "One more question waits.")
	case more > 1:
		lines = append(lines, fmt.Sprintf("%d more questions wait.", more))
	}
	n.Body = strings.Join(lines, "\n")
	return n
}
