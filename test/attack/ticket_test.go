package attack

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/test/site"
)

// ticket makes the order that the gateway would send for a granted press: what an
// attacker has who could read and repeat what the gateway says.
func (a *arena) ticket(call, text string) *wire.Ticket {
	a.t.Helper()
	engine := a.Rules()
	digest := sha256.Sum256([]byte(text))
	sealed, err := policy.BuildEnvelope(policy.EnvelopeInput{
		Profile: engine.Profile(site.ToolPress), Principal: "agent", Role: "agent", Lane: "main", Selected: a.node.ID, Mode: capabilities.SelectSole,
		Node: policy.Node{ID: a.node.ID}, ArgsDigest: digest[:], Policy: engine.SnapshotID(), Created: time.Now(), Expires: time.Now().Add(time.Minute),
	})
	if err != nil {
		a.t.Fatal(err)
	}
	args := fmt.Appendf(nil, `{"text":%q}`, text)
	return &wire.Ticket{
		Call: capabilities.CallID(call), Tool: site.ToolPress, Capability: "tyrum.fixture.press", Lane: "main", Node: a.node.ID,
		Args: args, ArgsDigest: sha256.Sum256(args), Envelope: sealed.Bytes, Grants: append(sealed.Grants, policy.GrantPrefix+"g-1"),
		LifetimeMS: 10_000, DeadlineMS: 10_000,
	}
}

// send returns the code that the node answers with, "" for a success.
func (a *arena) send(t *wire.Ticket) capabilities.Code {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, _, err := a.Nodes.Dispatch(ctx, a.node.ID, t, nil)
	if err != nil {
		return capabilities.CodeOf(err)
	}
	return answer.Code
}

// One ticket is one execution: repeated, copied, at once or after a reconnect, in
// whatever order.
func TestATicketRunsOnce(t *testing.T) {
	a := enter(t, site.Options{})
	first := a.ticket("c-first", "first")
	if code := a.send(first); code != "" || a.h.Runs("first") != 1 {
		t.Fatalf("the control: %s, %d runs", code, a.h.Runs("first"))
	}
	// The same bytes, as a replay has them.
	if code := a.send(first); code != capabilities.CodeTicketReplayed {
		t.Errorf("repeated: %q", code)
	}
	// The same call under a sequence of its own.
	fresh := *first
	fresh.Sequence = 0
	if code := a.send(&fresh); code != capabilities.CodeTicketReplayed {
		t.Errorf("repeated under a new sequence: %q", code)
	}
	// Another call under a used sequence.
	used := a.ticket("c-used", "used")
	used.Sequence = first.Sequence
	if code := a.send(used); code != capabilities.CodeTicketReplayed || a.h.Runs("used") != 0 {
		t.Errorf("a used sequence: %q", code)
	}

	// A hundred copies at once.
	var wg sync.WaitGroup
	for range 100 {
		copied := a.ticket("c-copied", "copied")
		wg.Go(func() { a.send(copied) })
	}
	wg.Wait()
	if n := a.h.Runs("copied"); n != 1 {
		t.Errorf("a hundred copies ran %d times", n)
	}

	// Out of order, each still runs, and once.
	base := fresh.Sequence + 1000
	for _, n := range []uint64{5, 3, 4, 1, 2, 3, 1, 5} {
		late := a.ticket(fmt.Sprint("c-late", n), fmt.Sprint("late", n))
		late.Sequence = base + n
		a.send(late)
	}
	for n := 1; n <= 5; n++ {
		if runs := a.h.Runs(fmt.Sprint("late", n)); runs != 1 {
			t.Errorf("late%d ran %d times", n, runs)
		}
	}

	// After a reconnect the old sequences lie below the new floor, and the journal
	// knows the old calls.
	seen := []*wire.Ticket{first, used, a.ticket("c-copied", "copied")}
	missed := a.ticket("c-missed", "missed") // never arrived on its connection
	missed.Sequence = base + 6
	a.node.Stop()
	a.node.AwaitGone()
	a.node.Start()
	for _, old := range seen {
		repeated := *old
		a.send(&repeated)
		repeated.Sequence = 0
		a.send(&repeated)
	}
	a.send(missed)
	for text, want := range map[string]int{"first": 1, "copied": 1} {
		if n := a.h.Runs(text); n != want {
			t.Errorf("%q ran %d times", text, n)
		}
	}
	if code := a.send(a.ticket("c-after", "after")); code != "" || a.h.Runs("after") != 1 {
		t.Errorf("the control after a reconnect: %q", code)
	}
}

// An order for one thing is no order for another.
func TestATicketIsForWhatItSays(t *testing.T) {
	a := enter(t, site.Options{})
	other := a.AddNode("other", site.NewHandler())
	for what, change := range map[string]func(*wire.Ticket){
		"other arguments": func(t *wire.Ticket) { t.Args = []byte(`{"text":"evil"}`) },
		"other node":      func(t *wire.Ticket) { t.Node = other.ID },
		"other lane":      func(t *wire.Ticket) { t.Lane = "elsewhere" },
		"other tool":      func(t *wire.Ticket) { t.Tool, t.Capability = site.ToolEcho, "tyrum.fixture.echo" },
		"more grants":     func(t *wire.Ticket) { t.Grants = append(t.Grants, "privileged.secret.read") },
		"no envelope":     func(t *wire.Ticket) { t.Envelope = nil },
		"changed envelope": func(t *wire.Ticket) {
			t.Envelope = append([]byte(nil), t.Envelope...)
			t.Envelope[len(t.Envelope)/2] ^= 1
		},
		"an envelope for another node": func(k *wire.Ticket) {
			a := *a
			a.node = other
			k.Envelope = a.ticket("x", "x").Envelope
		},
	} {
		text := "bad " + what
		k := a.ticket("c-"+what[:2]+fmt.Sprint(len(what)), text)
		change(k)
		if code := a.send(k); code == "" || a.h.Runs(text)+a.h.Runs("evil") != 0 {
			t.Errorf("%s: %q, ran %d times", what, code, a.h.Runs(text))
		}
	}
	if code := a.send(a.ticket("c-good", "good")); code != "" || a.h.Runs("good") != 1 {
		t.Errorf("the control: %q", code)
	}
}
