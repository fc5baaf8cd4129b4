package consent_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/handrail-dev/handrail/gateway/consent"
)

// A caller whose connection ended, and who may come back, keeps a question open that another
// one leaves.
func TestACallerThatMayComeBackKeepsTheQuestion(t *testing.T) {
	r := openAs(t, nil)
	await := func(ctx context.Context, q consent.Ask) <-chan error {
		done := make(chan error, 1)
		go func() { _, err := r.Await(ctx, q); done <- err }()
		return done
	}
	waiting := func(n int, mayReturn bool) consent.Approval {
		for {
			changed := r.Changed()
			if all := r.Approvals(); len(all) == 1 && all[0].Waiting == n && all[0].MayReturn == mayReturn {
				return all[0]
			}
			select {
			case <-changed:
			case <-t.Context().Done():
				t.Fatal("never")
			}
		}
	}
	var gone atomic.Bool
	change := make(chan struct{})
	away := ask()
	away.Attended = func() (bool, <-chan struct{}) {
		if gone.Load() {
			return false, nil
		}
		return true, change
	}
	first := await(t.Context(), away)
	waiting(1, false)
	ctx, cancel := context.WithCancel(t.Context())
	second := await(ctx, ask())
	waiting(2, false)
	gone.Store(true)
	close(change)
	w := waiting(1, true)
	cancel()
	<-second
	if got, err := r.Approval(w.ID); err != nil || got.State != consent.StatePending {
		t.Errorf("closed while one may come back: %+v, %v", got, err)
	} else if _, err := r.Answer(t.Context(), w.ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Error(err)
	}
	if err := <-first; err != nil {
		t.Errorf("who was away gets no answer: %v", err)
	}
}
