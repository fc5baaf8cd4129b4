package netsim

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/nodes"
)

// holder is a node that waits for the word of each held ticket, as the runner does.
type holder struct {
	*node
	lies chan capabilities.CallID // each ticket that came
	said chan error               // what each waited for
	ran  atomic.Int32
}

func newHolder(t *testing.T) *holder {
	h := &holder{lies: make(chan capabilities.CallID, 100), said: make(chan error, 100)}
	h.node = newNode(t, func(ctx context.Context, tk *wire.Ticket, sink link.Sink) {
		if tk.Held {
			h.lies <- tk.Call
			err := sink.Go(ctx)
			h.said <- err
			if err != nil {
				code := capabilities.CodeStopped
				if ctx.Err() == nil {
					code = capabilities.CodeOf(err)
				}
				sink.Answer(wire.Answer{Status: capabilities.StatusError, Code: code}, nil)
				return
			}
		}
		h.ran.Add(1)
		answerEcho(ctx, tk, sink)
	})
	return h
}

func (g *gateway) pairHolder(t *testing.T, by string) *holder {
	t.Helper()
	h := newHolder(t)
	_, paste := g.invite(nodes.InviteSpec{AutoApprove: true, By: "admin"})
	if by != "" {
		paste.Addrs = []string{by}
	}
	must(t, h.join(context.Background(), paste, nil))
	h.run()
	g.awaitConnected(h.id)
	return h
}

// held is a ticket that lies at a node, as the gateway has it.
type held struct {
	Go       func(context.Context, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error)
	Withdraw func()
}

// tryHold sends a ticket ahead; ok is false where the gateway does not.
func (g *gateway) tryHold(ctx context.Context, id capabilities.NodeID, args string) (h held, ok bool) {
	h.Go, h.Withdraw = g.nodes.Hold(ctx, id, ticket(id, args))
	return h, h.Go != nil
}

// hold sends a ticket ahead and waits until it lies at the node.
func (h *holder) hold(ctx context.Context, g *gateway) held {
	h.t.Helper()
	held, ok := g.tryHold(ctx, h.id, `{"a":1}`)
	if !ok {
		h.t.Fatal("not held")
	}
	<-h.lies
	return held
}

func (h *holder) wantNothingRan() {
	h.t.Helper()
	if err := <-h.said; err == nil {
		h.t.Error("the node was told that it may run")
	}
	if n := h.ran.Load(); n != 0 {
		h.t.Errorf("%d ran", n)
	}
}

func TestHeldRunsAtTheWord(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pairHolder(t, "")
	for range 20 { // more than may be held at once
		held := n.hold(context.Background(), g)
		if len(n.said) != 0 || n.ran.Load() != 0 {
			t.Fatal("it did not wait")
		}
		answer, _, err := held.Go(context.Background(), nil)
		must(t, err)
		if err := <-n.said; err != nil || string(answer.Output) != `{"a":1}` || n.ran.Swap(0) != 1 {
			t.Fatalf("%s %v", answer.Output, err)
		}
	}
}

func TestHeldAndWithdrawn(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pairHolder(t, "")
	n.hold(context.Background(), g).Withdraw()
	n.wantNothingRan()

	// The end of its context withdraws it, too, and the word is too late.
	ctx, cancel := context.WithCancel(context.Background())
	held := n.hold(ctx, g)
	cancel()
	n.wantNothingRan()
	_, _, err := held.Go(ctx, nil)
	wantCode(t, err, capabilities.CodeCancelled)

	// And so does the end of the context that the word comes with.
	held = n.hold(context.Background(), g)
	_, _, err = held.Go(ctx, nil)
	wantCode(t, err, capabilities.CodeCancelled)
	n.wantNothingRan()

	// None of these counts as held any more.
	for range 20 {
		n.hold(context.Background(), g).Withdraw()
		n.wantNothingRan()
	}
}

// A gateway keeps its own bound on what a node holds.
func TestHeldAtOnce(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pairHolder(t, "")
	var all []held
	for {
		held, ok := g.tryHold(context.Background(), n.id, `{}`)
		if !ok {
			break
		}
		<-n.lies
		if all = append(all, held); len(all) > 100 {
			t.Fatal("there is no bound")
		}
	}
	if _, ok := g.tryHold(context.Background(), n.id, `{}`); ok || len(all) < 2 {
		t.Errorf("%d are held", len(all))
	}
	// Others go the usual way meanwhile.
	_, _, err := g.call(context.Background(), n.id, `{}`)
	must(t, err)
	for _, held := range all {
		_, _, err := held.Go(context.Background(), nil)
		must(t, err)
	}
	if int(n.ran.Load()) != len(all)+1 {
		t.Errorf("%d of %d ran", n.ran.Load(), len(all)+1)
	}
}

// What can not leave at once is not held: a large ticket, one for a node that is away.
func TestNotHeld(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pairHolder(t, "")
	if _, ok := g.tryHold(context.Background(), n.id, `"`+string(make([]byte, wire.MaxHeld))+`"`); ok {
		t.Error("a large ticket is held")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, ok := g.tryHold(ended, n.id, `{}`); ok {
		t.Error("held for nobody")
	}
	n.stop()
	g.awaitGone(n.id)
	if _, ok := g.tryHold(context.Background(), n.id, `{}`); ok {
		t.Error("held at a node that is away")
	}
	if n.ran.Load() != 0 {
		t.Error("something ran")
	}
}

// The way is cut while the ticket is held: neither side can have let it run, and both
// know.
func TestCutWhileHeld(t *testing.T) {
	g := newGateway(t, nil)
	way := newProxy(t, g.addr)
	n := g.pairHolder(t, way.addr())
	held := n.hold(context.Background(), g)
	way.cut(true)
	g.awaitGone(n.id)
	n.wantNothingRan()
	_, _, err := held.Go(context.Background(), nil)
	wantCode(t, err, capabilities.CodeNodeDisconnected)
	way.cut(false)
	g.awaitConnected(n.id)
	if n.ran.Load() != 0 {
		t.Error("it ran after all")
	}
}

// The word is lost on the way: the gateway can not know, and the node never runs it.
func TestWordIsLost(t *testing.T) {
	g := newGateway(t, nil)
	way := newProxy(t, g.addr)
	n := g.pairHolder(t, way.addr())
	held := n.hold(context.Background(), g)
	way.cut(true)
	_, _, err := held.Go(context.Background(), nil)
	wantCode(t, err, capabilities.CodeUnknownOutcome)
	n.wantNothingRan()
}

// The gateway ends while the node holds.
func TestGatewayEndsWhileHeld(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pairHolder(t, "")
	held := n.hold(context.Background(), g)
	g.stop()
	n.wantNothingRan()
	_, _, err := held.Go(context.Background(), nil)
	wantCode(t, err, capabilities.CodeNodeDisconnected)
}

// The node ends while it holds.
func TestNodeEndsWhileHeld(t *testing.T) {
	g := newGateway(t, nil)
	n := g.pairHolder(t, "")
	held := n.hold(context.Background(), g)
	n.stop()
	n.wantNothingRan()
	answer, _, err := held.Go(context.Background(), nil)
	switch code := capabilities.CodeOf(err); {
	case err == nil && answer.Code == capabilities.CodeStopped: // its last word made it
	case code == capabilities.CodeNodeDisconnected, code == capabilities.CodeUnknownOutcome:
	default:
		t.Errorf("%+v %v", answer, err)
	}
}

// A ticket that nobody says anything about is given up by the node, and the word that
// comes after that learns it.
func TestWordThatNeverComes(t *testing.T) {
	t.Parallel() // it takes as long as a ticket may lie
	g := newGateway(t, nil)
	n := g.pairHolder(t, "")
	held := n.hold(context.Background(), g)
	select {
	case err := <-n.said:
		if err == nil {
			t.Error("it ran without a word")
		}
	case <-time.After(patience):
		t.Fatal("the node holds for ever")
	}
	answer, _, err := held.Go(context.Background(), nil)
	if err != nil || answer.Code != capabilities.CodeTicketExpired {
		t.Errorf("%+v %v", answer, err)
	}
	if n.ran.Load() != 0 {
		t.Error("it ran")
	}
}
