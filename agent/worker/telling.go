package worker

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/turn"
)

const (
	tellAgain  = 20 * time.Second // where the gateway does not say how soon
	tellPause  = time.Second      // between two words: each is a commit, and stages of one second are one word
	tellWithin = 5 * time.Second  // bounds one word
)

// telling has the gateway know a turn while it runs. The turn itself never waits for it: the queue
// has one place, and a newer word takes that of an older one which was not said yet.
type telling struct {
	queue chan turn.Claim
	over  context.CancelFunc
	done  chan struct{}
	deaf  bool // the gateway is one of before, which knows no turns that run; read once done is closed
}

// tells begins to tell of a turn. It is ended by end.
func tells(ctx context.Context, r Record) *telling {
	ctx, over := context.WithCancel(context.WithoutCancel(ctx))
	t := &telling{queue: make(chan turn.Claim, 1), over: over, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.run(ctx, r)
	}()
	return t
}

// say queues a word. It is called by the goroutine of the turn alone.
func (t *telling) say(c turn.Claim) {
	select {
	case <-t.queue: // nobody heard that one, and this one says more
	default:
	}
	t.queue <- c
}

// run says each word, and the last one again before its lease is over.
func (t *telling) run(ctx context.Context, r Record) {
	var last turn.Claim
	again := time.NewTimer(tellAgain)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case last = <-t.queue:
		case <-again.C:
		}
		if ctx.Err() != nil {
			return
		}
		lease, err := word(ctx, r, last)
		if code := capabilities.CodeOf(err); code == capabilities.CodeInvalidRequest || code == capabilities.CodeForbidden {
			t.deaf = true
			return
		}
		wait := tellAgain
		if lease > 0 {
			wait = lease / 3
		}
		again.Reset(wait)
		select { // a gateway that is away is tried again then, too
		case <-ctx.Done():
			return
		case <-time.After(min(tellPause, wait)):
		}
	}
}

// word is one word to the gateway. It is said to its end, so that its connection serves the next.
func word(ctx context.Context, r Record, c turn.Claim) (lease time.Duration, err error) {
	ctx, over := context.WithTimeout(context.WithoutCancel(ctx), tellWithin)
	defer over()
	return r.TellTurn(ctx, c)
}

// end returns once nothing more is said, and whether the gateway knows turns that run.
func (t *telling) end() (heard bool) {
	t.over()
	<-t.done
	return !t.deaf
}
