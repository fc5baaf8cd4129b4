package dispatch

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/store"
)

// fakeHeld is a node's side of one held ticket, and what was done with it.
type fakeHeld struct {
	mu    sync.Mutex
	went  int
	taken int // withdrawn
	word  func(ctx context.Context) (wire.Answer, []capabilities.Blob, error)
}

func (f *fakeHeld) Go(ctx context.Context, _ func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	f.mu.Lock()
	f.went++
	f.mu.Unlock()
	return f.word(ctx)
}

func (f *fakeHeld) Withdraw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken++
}

func (f *fakeHeld) want(t *testing.T, went, taken int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.went != went || f.taken != taken {
		t.Errorf("let go %d times and withdrawn %d times, want %d and %d", f.went, f.taken, went, taken)
	}
}

// The ticket goes ahead of the commit, and the word follows it.
func TestWordFollowsTheCommit(t *testing.T) {
	nodes := newFakeNodes("n1")
	h := newHouse(t, nodes, nil)
	var call capabilities.CallID
	held := &fakeHeld{word: func(ctx context.Context) (wire.Answer, []capabilities.Blob, error) {
		if h.state(call) != rowOpen {
			t.Errorf("at the word the row is %q", h.state(call))
		}
		h.wantKinds(call, "request", "decision", "dispatch")
		return answering(`{"result":1}`)(ctx, nil, nil)
	}}
	nodes.hold = func(_ context.Context, tk *wire.Ticket) *fakeHeld {
		call = tk.Call
		h.wantKinds(call)
		if string(tk.Args) != `{"expression":"1"}` || tk.Node != "n1" || tk.LifetimeMS == 0 || len(tk.Envelope) == 0 {
			t.Errorf("%+v", tk)
		}
		return held
	}
	r := h.evaluate("r1")
	want(t, r, capabilities.StatusOK, "")
	h.wantKinds(r.Call, "request", "decision", "dispatch", "result")
	held.want(t, 1, 0)
	if nodes.sent() != 0 {
		t.Errorf("%d tickets beside the held one", nodes.sent())
	}
}

// A commit that fails withdraws the ticket: nothing executes.
func TestFailedCommitWithdraws(t *testing.T) {
	nodes := newFakeNodes("n1")
	h := newHouse(t, nodes, nil)
	held := &fakeHeld{}
	nodes.hold = func(context.Context, *wire.Ticket) *fakeHeld {
		must(t, h.store.Close())
		return held
	}
	want(t, h.evaluate("r1"), capabilities.StatusError, capabilities.CodeLedgerUnavailable)
	held.want(t, 0, 1)
	if nodes.sent() != 0 {
		t.Errorf("%d tickets", nodes.sent())
	}
}

// A caller who goes while the ticket is held: the word finds its context ended, or
// the commit was given up and the ticket withdrawn.
func TestCallerGoesWhileHeld(t *testing.T) {
	nodes := newFakeNodes("n1")
	h := newHouse(t, nodes, nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	held := &fakeHeld{word: func(ctx context.Context) (wire.Answer, []capabilities.Blob, error) {
		if ctx.Err() == nil {
			t.Error("the word's context goes on")
		}
		return wire.Answer{}, nil, &capabilities.Error{Code: capabilities.CodeCancelled}
	}}
	var call capabilities.CallID
	nodes.hold = func(life context.Context, tk *wire.Ticket) *fakeHeld {
		call = tk.Call
		cancel()
		<-life.Done()
		close(ended)
		return held
	}
	want(t, h.call(ctx, toolEvaluate, `{"expression":"1"}`, ""), capabilities.StatusError, capabilities.CodeCancelled)
	<-ended
	h.stop() // the execution is over
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.went+held.taken != 1 || nodes.sent() != 0 {
		t.Errorf("let go %d times, withdrawn %d times, %d tickets", held.went, held.taken, nodes.sent())
	}
	if kinds := h.kinds(call); held.went == 1 && len(kinds) != 4 || held.taken == 1 && len(kinds) != 0 {
		t.Errorf("packets %q", kinds)
	}
}

// With a node that can not hold the ticket leaves after the commit.
func TestNotHeld(t *testing.T) {
	nodes := newFakeNodes("n1")
	nodes.dispatch = answering(`{"result":1}`)
	h := newHouse(t, nodes, nil)
	asked := 0
	nodes.hold = func(context.Context, *wire.Ticket) *fakeHeld { asked++; return nil }
	want(t, h.evaluate("r1"), capabilities.StatusOK, "")
	if asked != 1 || nodes.sent() != 1 {
		t.Errorf("asked %d times, %d tickets", asked, nodes.sent())
	}
}

// Nothing goes ahead while others write: there is no time to win, and work to lose.
func TestNothingIsHeldWhileOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := newFakeNodes("n1")
		nodes.dispatch = answering(`{"result":1}`)
		h := newHouse(t, nodes, nil)
		defer func() { h.stop(); _ = h.store.Close() }()     // inside the bubble
		want(t, h.evaluate("r0"), capabilities.StatusOK, "") // what is written once is written
		nodes.hold = func(context.Context, *wire.Ticket) *fakeHeld {
			t.Error("held although the store is busy")
			return nil
		}
		release, other, done := make(chan struct{}), make(chan error, 1), make(chan capabilities.Result, 1)
		go func() {
			other <- h.store.Write(context.Background(), func(*store.Tx) error { <-release; return nil })
		}()
		synctest.Wait()
		go func() { done <- h.evaluate("r1") }()
		synctest.Wait() // it waits for its turn to write
		close(release)
		must(t, <-other)
		want(t, <-done, capabilities.StatusOK, "")
	})
}
