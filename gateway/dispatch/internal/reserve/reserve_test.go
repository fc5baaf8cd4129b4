package reserve

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
)

// A node has one owner; what is on its desk ends when it is taken, and the others wait until
// it is given back for the last time.
func TestANodeHasOneOwner(t *testing.T) {
	n := New()
	ended := map[string]error{}
	visit := func(who capabilities.PrincipalID, name string, onDesk, inside bool) Visit {
		return Visit{
			Node: "n1", By: Owner{who, "main"}, Inside: inside, OnDesk: onDesk,
			Execution: execution.New(func(cause error) { ended[name] = cause }),
		}
	}
	desk, page, ann := visit("agent", "desk", true, false), visit("agent", "page", false, false), visit("ann", "ann", false, true)
	for _, v := range []Visit{desk, page} {
		if n.Admit(v) != nil {
			t.Fatal("kept by nobody")
		}
	}
	if count, ok := n.Keep(ann); !ok || count != 1 || capabilities.CodeOf(ended["desk"]) != capabilities.CodeTakenOver || len(ended) != 1 {
		t.Fatalf("%d, %v, %v", count, ok, ended)
	}
	if _, ok := n.Keep(visit("ben", "ben", false, true)); ok {
		t.Error("taken from its owner")
	}
	if count, ok := n.Keep(ann); !ok || count != 0 {
		t.Error("its owner cannot keep it twice")
	}
	waits := n.Standing(desk)
	if waits == nil || waits.Owner().Principal != "ann" || n.Admit(desk) != waits {
		t.Fatal("an agent passes")
	}
	if n.Standing(visit("ann", "namesake", true, false)) == nil {
		t.Error("the owner's name is the owner's hand")
	}
	if n.Standing(visit("ann", "hand", true, true)) != nil {
		t.Error("the owner's own hand waits")
	}
	n.Wait(waits)
	n.GiveBack("n1")
	select {
	case <-waits.Over():
		t.Fatal("given back by the first of two")
	default:
	}
	if n.Waited("n1") != 1 {
		t.Errorf("%d waited", n.Waited("n1"))
	}
	n.GiveBack("n1")
	<-waits.Over()
	if n.Kept("n1") != nil || n.Admit(desk) != nil {
		t.Error("still kept")
	}
	for _, v := range []Visit{desk, page} {
		n.Leave(v)
	}
	if len(n.admitted) != 0 {
		t.Errorf("%d nodes are remembered", len(n.admitted))
	}
}
