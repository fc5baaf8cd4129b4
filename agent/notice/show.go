package notice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// showWithin bounds one word to the session.
const showWithin = 5 * time.Second

// actStop is the button that stops the device.
const actStop = "stop"

// shower keeps one notice of the session in step with the board. A session that does
// not answer holds up nothing but the next notice.
type shower struct {
	board *Board
	opts  *Options
	next  chan Status // the latest; older ones are dropped
	id    uint32      // of the notice that is up; 0: none
	said  string
	mute  bool // the session shows no notices

	askID   uint32 // of the question that is up; 0: none
	askText string
}

func newShower(b *Board) *shower {
	return &shower{board: b, opts: &b.opts, next: make(chan Status, 1)}
}

// show hands over what is to be seen; called from one goroutine.
func (s *shower) show(now Status) {
	select {
	case <-s.next:
	default:
	}
	s.next <- now
}

func (s *shower) run(ctx context.Context) {
	if s.opts.Notifier == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			s.put(context.WithoutCancel(ctx), platform.Notice{})
			s.board.Ask(nil)
			s.asks(context.WithoutCancel(ctx))
			return
		case <-s.board.asking:
			s.asks(ctx)
		case now := <-s.next:
			s.put(ctx, notice(now))
		case e := <-s.opts.Notifier.Events():
			if e.ID == s.askID && e.ID != 0 && e.Key == "" {
				s.askID, s.askText = 0, ""
				s.board.putAway()
				continue
			}
			if e.ID != s.id || s.id == 0 {
				continue
			}
			if e.Key == actStop {
				s.opts.Stop("the notice's button")
			}
			s.id = 0 // put away; what comes next is a new one
		}
	}
}

// notice makes the words for the session; the zero Notice for nothing to show.
func notice(s Status) platform.Notice {
	switch s.State {
	case StateInUse:
		// Not the text of the file: it tells of every pause between two calls.
		var lines []string
		for _, u := range s.Uses {
			lines = append(lines, fmt.Sprintf("%s: %s, since %s, lane %s", u.Principal, u.What, u.Since.Local().Format("15:04"), u.Lane))
		}
		lines = append(lines, s.stop)
		first := s.Uses[0]
		verb := "uses"
		switch {
		case isLive(first.What):
			verb = "watches"
		case first.What == film:
			verb = "records"
		}
		title := fmt.Sprintf("%s %s %s", first.Principal, verb, first.What)
		if len(s.Uses) > 1 {
			title = fmt.Sprintf("%s, and %d more", title, len(s.Uses)-1)
		}
		return platform.Notice{
			Title: title, Body: strings.Join(lines, "\n"), Lasting: true, Actions: []platform.NoticeAction{{Key: actStop, Label: "Stop"}},
		}
	case StateStopped:
		return platform.Notice{Title: "Handrail is stopped", Body: s.Text}
	}
	return platform.Notice{}
}

// put shows n in the place of what is up.
func (s *shower) put(ctx context.Context, n platform.Notice) {
	if s.mute || n.Title+n.Body == s.said {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, showWithin)
	defer cancel()
	s.said = n.Title + n.Body
	if n.Title == "" {
		if s.id != 0 {
			if err := s.opts.Notifier.Withdraw(ctx, s.id); err != nil {
				s.opts.Log.Debug("notice.withdraw", "err", err)
			}
			s.id = 0
		}
		return
	}
	id, err := s.opts.Notifier.Show(ctx, s.id, n)
	switch {
	case errors.Is(err, platform.ErrNoNotices):
		s.mute = true
		s.opts.Log.Info("notice.none", "why", err)
	case err != nil:
		s.said = "" // tried again with the next change
		s.opts.Log.Warn("notice.show", "err", err)
	default:
		s.id = id
	}
}

func (s *shower) close() {
	if s.opts.Notifier != nil {
		_ = s.opts.Notifier.Close() // nothing is left to do with it
	}
}
