package provider

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/dispatch"
)

var anna = dispatch.Caller{Principal: "anna", Role: "admin"}

// silence has a host answer nothing until the func that is returned is called.
func (c *calls) silence(host capabilities.NodeID) (answer func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers := make(chan struct{})
	c.silent, c.asked = map[capabilities.NodeID]chan struct{}{host: answers}, make(chan capabilities.NodeID, 16)
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.silent, host)
		close(answers)
	})
}

// A host that never answers delays nobody: while it is asked and told, providers of other hosts
// are listed, decided about and removed, and its own is removed.
func TestAHostThatNeverAnswers(t *testing.T) {
	b, _, c, roster := entrusting(t)
	roster.Change(func() {
		mute := roster.Roster[0]
		mute.ID = "mute"
		roster.Roster = append(roster.Roster, mute)
	})
	far := tools.Provider{Name: "far", Kind: tools.KindMCP, Command: []string{"x"}}
	b.all["far"] = &Provider{Provider: far, Host: "mute"}
	answer := c.silence("mute")
	defer answer()
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		if _, err := b.Check(ctx, anna, "far"); err == nil {
			t.Error("it was checked")
		}
	})
	waiting.Go(func() {
		_, err := b.Add(ctx, anna, tools.Provider{Name: "later", Kind: tools.KindMCP, Command: []string{"y"}}, "mute")
		if err == nil {
			t.Error("it was added")
		}
	})
	for range 2 {
		<-c.asked
	}
	if _, err := b.Add(ctx, anna, tools.Provider{Name: "later", Kind: tools.KindMCP, Command: []string{"z"}}, "desk"); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("%v for a name that is being added", err)
	}
	if n := len(b.List()); n != 2 {
		t.Errorf("%d providers", n)
	}
	tool := b.all["words"].Tools[0]
	if _, err := b.Decide(ctx, anna, tool.Described.Tool, tool.Hash, Choice{State: Restricted}); err != nil {
		t.Error(err)
	}
	if got := c.take(); !slices.Equal(got, []capabilities.ToolID{toolOffer, toolCredential}) {
		t.Errorf("%v", got)
	}
	if err := b.Remove(ctx, anna, "words"); err != nil {
		t.Error(err)
	}
	waiting.Go(func() {
		if err := b.Remove(ctx, anna, "far"); err == nil {
			t.Error("its host was told")
		}
	})
	for len(b.List()) > 0 { // decided at once, though its host is told later
		runtime.Gosched()
	}
}

// The word of a host on a credential may be from before it came, and counts for nothing: each
// connection gets each epoch once.
func TestACredentialIsDeliveredOncePerEpoch(t *testing.T) {
	b, _, c, roster := entrusting(t)
	of := b.all["words"].Tools[0].Capability
	roster.Change(func() {
		roster.Roster[0].Readiness[of] = capabilities.Readiness{Capability: of, Reason: capabilities.ReasonCredentialMissing}
	})
	once := func(why string) {
		t.Helper()
		for range 3 {
			follow(t, b)
		}
		if got := c.take(); !slices.Equal(got, []capabilities.ToolID{toolCredential}) {
			t.Errorf("%v for %s", got, why)
		}
	}
	once("a connection")
	roster.Connect(0, true) // another one, and nobody saw it gone between
	once("another connection")
	b.Renewed(t.Context(), "token")
	b.Renewed(t.Context(), "token")
	once("another value")
}

// A delivery that takes long is not overtaken, and overwrites no later one: what was approved last
// is what arrives last.
func TestALaterDeliveryArrivesLast(t *testing.T) {
	b, _, c, roster := entrusting(t)
	first := b.reference(b.all["words"], "TOKEN")
	answer := c.silence("desk")
	defer answer()
	var waiting sync.WaitGroup
	b.follow(t.Context(), &waiting, roster.Snapshot())
	<-c.asked
	tool := b.all["words"].Tools[0]
	waiting.Go(func() {
		if _, err := b.Decide(t.Context(), dispatch.Caller{Principal: "bob", Role: "admin"}, tool.Described.Tool, tool.Hash, Choice{State: Restricted}); err != nil {
			t.Error(err)
		}
	})
	for decided := false; !decided; runtime.Gosched() { // while the host is silent
		p, err := b.Get("words")
		if err != nil {
			t.Fatal(err)
		}
		decided = p.Approver.Principal == "bob"
	}
	answer()
	waiting.Wait()
	follow(t, b)
	p, _ := b.Get("words")
	last := b.reference(&p, "TOKEN")
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.made, []capabilities.ToolID{toolCredential, toolOffer, toolCredential}) || first == last ||
		!strings.Contains(c.args[0], `"`+first+`"`) || !strings.Contains(c.args[2], `"`+last+`"`) {
		t.Errorf("%v %v, first %s, last %s", c.made, c.args, first, last)
	}
}
