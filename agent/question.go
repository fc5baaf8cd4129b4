package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/platform"
)

// hearAgain is how soon it is tried again to hear the person's keys, where that failed.
const hearAgain = 5 * time.Second

// questions are what the gateway would have the person here asked.
type questions struct {
	mu   sync.Mutex
	list []wire.Question
	news chan struct{}
}

// onQuestions takes the gateway's questions; nil where nobody could be asked here.
func (a *Agent) onQuestions() func([]wire.Question) {
	if a.opts.HearAnswers == nil || a.opts.Notifier == nil {
		return nil
	}
	return func(list []wire.Question) {
		a.asked.mu.Lock()
		a.asked.list = list
		a.asked.mu.Unlock()
		if len(list) == 0 {
			a.board.Ask(nil) // at once: what is closed cannot be answered
		}
		select {
		case a.asked.news <- struct{}{}:
		default:
		}
	}
}

// heedQuestions shows questions while the person's keys are heard, and listens while there
// is something to answer.
func (a *Agent) heedQuestions(ctx context.Context) error {
	stop := func() {}
	defer func() { stop() }()
	var again <-chan time.Time
	unheard := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.asked.news:
		case <-again:
		}
		a.asked.mu.Lock()
		list := a.asked.list
		a.asked.mu.Unlock()
		again = nil
		stop() // a display server that ended took the listening with it
		stop = func() {}
		if len(list) > 0 {
			hearing, cancel := context.WithCancel(ctx)
			stop = cancel
			if err := a.opts.HearAnswers(hearing, a.heard); err != nil {
				if why := err.Error(); why != unheard && ctx.Err() == nil {
					unheard = why
					level := a.opts.Log.Warn
					if missing := (*platform.MissingError)(nil); errors.As(err, &missing) {
						level = a.opts.Log.Info
					}
					level("question.unheard", "err", err, "hint", "answer in the console, from another device or with a passkey")
				}
				again = time.After(hearAgain)
				list = nil
			}
		}
		a.board.Ask(list)
	}
}

// heard is the person's yes or no by keys of this device.
func (a *Agent) heard(allow bool) {
	q, err := a.board.Answer(allow)
	if err == nil {
		err = a.link.Answer(wire.Verdict{ID: q.ID, Digest: q.Digest(), Allow: allow})
	}
	if err != nil {
		a.opts.Log.Warn("question.not_answered", "question", q, "allow", allow, "err", err)
		if q.ID != "" {
			a.board.Answered(q.ID, allow, capabilities.AsError(err).PublicMessage())
		}
		return
	}
	a.opts.Log.Warn("question.answered", "question", q, "allow", allow)
}

func (a *Agent) onVerdictTaken(v wire.VerdictTaken) {
	problem := ""
	if v.Code != "" {
		problem = (&capabilities.Error{Code: v.Code, Message: v.Message}).PublicMessage()
	}
	a.board.Answered(v.ID, v.Allow, problem)
}
