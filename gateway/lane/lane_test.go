package lane_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/lane"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

var (
	alice    = principal.Identity{Principal: "alice", Role: principal.RoleAgent}
	bob      = principal.Identity{Principal: "bob", Role: principal.RoleAgent}
	operator = principal.Identity{Principal: "op", Role: principal.RoleOperator}
)

func open(t testing.TB) *store.Store {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{
		Path: filepath.Join(t.TempDir(), "store.db"), Migrations: lane.Migrations(), ReserveBytes: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func lanes(t testing.TB, o lane.Options) *lane.Lanes {
	t.Helper()
	l, err := lane.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestALaneBelongsToItsFirstUser(t *testing.T) {
	db := open(t)
	l := lanes(t, lane.Options{Store: db})
	ctx := t.Context()
	for _, id := range []principal.Identity{alice, alice} {
		if err := l.Enter(ctx, id, "work"); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []*lane.Lanes{l, lanes(t, lane.Options{Store: db})} { // a restart knows it, too
		if err := l.Enter(ctx, bob, "work"); capabilities.CodeOf(err) != capabilities.CodeForbidden {
			t.Errorf("bob enters alice's lane: %v", err)
		}
		if err := l.Enter(ctx, operator, "work"); err != nil {
			t.Errorf("an operator may enter any lane: %v", err)
		}
		if err := l.Claim(ctx, "bob", "work"); capabilities.CodeOf(err) != capabilities.CodeForbidden {
			t.Errorf("bob claims alice's lane: %v", err)
		}
		if got := l.List("alice"); len(got) != 1 || got[0].Principal != "alice" {
			t.Errorf("alice's lanes: %+v", got)
		}
	}
	// A lane that was made by attaching is nobody's until it is used.
	if _, err := l.Attach(ctx, operator, "fresh", "n1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Enter(ctx, bob, "fresh"); err != nil {
		t.Fatal(err)
	}
	if err := l.Enter(ctx, alice, "fresh"); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("alice enters bob's lane: %v", err)
	}
	if got := l.Attached("fresh"); !slices.Equal(got, []capabilities.NodeID{"n1"}) {
		t.Errorf("claiming lost the nodes: %v", got)
	}
	for _, bad := range []capabilities.LaneID{"", "a b", "a\x00", capabilities.LaneID(make([]byte, 200))} {
		if err := l.Enter(ctx, alice, bad); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("lane %q: %v", bad, err)
		}
	}
	if err := l.Enter(ctx, principal.Identity{Principal: "x"}, "x"); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("no role enters: %v", err)
	}
}

func TestLanesOfOnePrincipalAreBounded(t *testing.T) {
	l := lanes(t, lane.Options{Store: open(t)})
	var err error
	n := 0
	for ; err == nil && n < 2000; n++ {
		err = l.Enter(t.Context(), alice, capabilities.LaneID(fmt.Sprintf("l%d", n)))
	}
	if capabilities.CodeOf(err) != capabilities.CodeOverloaded || n != 1001 {
		t.Errorf("after %d lanes: %v", n, err)
	}
	if err := l.Enter(t.Context(), bob, "mine"); err != nil {
		t.Errorf("bob pays for alice: %v", err)
	}
}

// Attaching and detaching in any order, with restarts in between, leaves what a plain set holds.
func TestAttachIsASet(t *testing.T) {
	db := open(t)
	cases := 0
	rapid.Check(t, func(rt *rapid.T) {
		cases++ // each case has lanes of its own
		l := lanes(t, lane.Options{Store: db})
		want := map[capabilities.LaneID]map[capabilities.NodeID]bool{}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			name := capabilities.LaneID(fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "lane"), cases))
			node := capabilities.NodeID(fmt.Sprintf("%s-%d", rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(rt, "node"), cases))
			if want[name] == nil {
				want[name] = map[capabilities.NodeID]bool{}
			}
			switch rapid.SampledFrom([]string{"attach", "detach", "restart"}).Draw(rt, "step") {
			case "attach":
				if _, err := l.Attach(context.Background(), operator, name, node); err != nil {
					rt.Fatal(err)
				}
				want[name][node] = true
			case "detach":
				_, err := l.Detach(context.Background(), operator, name, node)
				if (err == nil) != want[name][node] {
					rt.Fatalf("detach: %v", err)
				}
				delete(want[name], node)
			case "restart":
				l = lanes(t, lane.Options{Store: db})
			}
			for name, nodes := range want {
				got := l.Attached(name)
				if len(got) != len(nodes) || !slices.IsSorted(got) {
					rt.Fatalf("%s has %v, want %v", name, got, nodes)
				}
				for _, n := range got {
					if !nodes[n] {
						rt.Fatalf("%s has %v, want %v", name, got, nodes)
					}
				}
			}
		}
	})
}

func TestAgentsDoNotAttach(t *testing.T) {
	l := lanes(t, lane.Options{Store: open(t)})
	if _, err := l.Attach(t.Context(), alice, "a", "n1"); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("attach: %v", err)
	}
	if _, err := l.Detach(t.Context(), alice, "a", "n1"); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("detach: %v", err)
	}
	for _, bad := range []capabilities.NodeID{"", "a b", "n:1"} {
		if _, err := l.Attach(t.Context(), operator, "a", bad); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("node %q: %v", bad, err)
		}
	}
}

// Use is noted in memory and written down by Run; what nobody attached a node to and was
// not used for a month is forgotten.
func TestUseIsWrittenDownAndOldLanesGo(t *testing.T) {
	db := open(t)
	synctest.Test(t, func(t *testing.T) {
		// The pool behind Read keeps goroutines of its own, outside this bubble.
		l := mustNew(t, db)
		ctx, cancel := context.WithCancel(context.Background())
		enter := func(all ...capabilities.LaneID) {
			for _, name := range all {
				if err := l.Enter(ctx, alice, name); err != nil {
					t.Fatal(err)
				}
			}
		}
		enter("used", "old", "held", "alice")
		for _, name := range []capabilities.LaneID{"held", "alice"} {
			if _, err := l.Attach(ctx, operator, name, "n1"); err != nil {
				t.Fatal(err)
			}
		}
		enter("begun", "begun-and-held") // with the node of the home lane
		if _, err := l.Attach(ctx, operator, "begun-and-held", "n2"); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(31 * 24 * time.Hour) // the bubble's clock
		_ = l.Enter(ctx, alice, "used") // forgotten or not, it can be used
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		var names []capabilities.LaneID
		for _, v := range l.List("") {
			names = append(names, v.Lane)
		}
		if !slices.Equal(names, []capabilities.LaneID{"alice", "begun-and-held", "held", "used"}) {
			t.Errorf("lanes left: %v", names)
		}
	})
	for _, v := range lanes(t, lane.Options{Store: db}).List("") {
		if v.LastUsed.IsZero() {
			t.Errorf("%s: its use was not written down", v.Lane)
		}
	}
}

func mustNew(t *testing.T, db *store.Store) *lane.Lanes {
	t.Helper()
	l, err := lane.New(lane.Options{Store: db})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Attachment belongs to its lane (S0-17). A new lane begins with what its principal's home
// lane has then: recorded, its own, and no other principal's.
func TestALaneBeginsWithTheHomeLanesNodes(t *testing.T) {
	db := open(t)
	var recorded []string
	o := lane.Options{Store: db, Record: func(_ *store.Tx, kind string, by capabilities.PrincipalID, body any) error {
		recorded = append(recorded, fmt.Sprint(kind, by, body))
		return nil
	}}
	l := lanes(t, o)
	ctx, op := t.Context(), operator
	enter := func(who principal.Identity, all ...capabilities.LaneID) {
		t.Helper()
		for _, lane := range all {
			if err := l.Enter(ctx, who, lane); err != nil {
				t.Fatal(err)
			}
		}
	}
	attach := func(lane capabilities.LaneID, node capabilities.NodeID) {
		t.Helper()
		if _, err := l.Attach(ctx, op, lane, node); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, all map[capabilities.LaneID][]capabilities.NodeID) {
		t.Helper()
		for lane, nodes := range all {
			if got := l.Attached(lane); !slices.Equal(got, nodes) {
				t.Errorf("%s: lane %s goes to %v, want %v", what, lane, got, nodes)
			}
		}
	}
	enter(alice, "alice", "a-before")
	attach("alice", "n1")
	attach("a-own", "n2")
	recorded = nil
	enter(alice, "a-after", "a-own")
	enter(bob, "b-1")
	all := map[capabilities.LaneID][]capabilities.NodeID{"alice": {"n1"}, "a-before": nil, "a-after": {"n1"}, "a-own": {"n2"}, "b-1": nil, "nosuch": nil}
	want("at first", all)
	if len(recorded) != 1 || !strings.HasPrefix(recorded[0], "lane.attached") || !strings.Contains(recorded[0], "a-after") {
		t.Errorf("recorded %q", recorded)
	}
	l = lanes(t, o)
	want("after a start", all)
	// A change of the home lane is nothing to a lane that has begun.
	if _, err := l.Detach(ctx, op, "alice", "n1"); err != nil {
		t.Fatal(err)
	}
	want("after detaching", map[capabilities.LaneID][]capabilities.NodeID{"alice": {}, "a-after": {"n1"}})
	// A lane that is merely named like somebody is not theirs.
	enter(alice, "bob")
	attach("bob", "n4")
	enter(bob, "b-2")
	want("of another's", map[capabilities.LaneID][]capabilities.NodeID{"b-2": nil})
}

// A lane keeps what it found, the latest used first, over a start; the one unused for longest
// leaves.
func TestFoundTools(t *testing.T) {
	db := open(t)
	l := lanes(t, lane.Options{Store: db})
	ctx := t.Context()
	if err := l.Enter(ctx, alice, "work"); err != nil {
		t.Fatal(err)
	}
	tool := func(n int) capabilities.ToolID { return capabilities.ToolID(fmt.Sprintf("tool.x.t%d", n)) }
	changed := l.FoundChanged()
	for n := range 40 {
		if err := l.Find(ctx, "work", []capabilities.ToolID{tool(n)}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	_, before := l.Found("work")
	l.Used("work", tool(0)) // the oldest
	l.Used("work", "tool.x.other")
	if _, now := l.Found("work"); now != before {
		t.Error("using a tool makes it another set")
	}
	if err := l.Find(ctx, "work", []capabilities.ToolID{tool(40), tool(41)}); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*lane.Lanes{l, lanes(t, lane.Options{Store: db})} {
		got, version := l.Found("work")
		if len(got) != 40 || !slices.Contains(got, tool(0)) || slices.Contains(got, tool(1)) || slices.Contains(got, tool(2)) || got[0] != tool(40) || version == 0 {
			t.Errorf("%v, version %d", got, version)
		}
	}
	if got, version := l.Found("elsewhere"); got != nil || version != 0 {
		t.Errorf("another lane has %v", got)
	}
	if err := l.Find(ctx, "nowhere", []capabilities.ToolID{tool(1)}); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("a lane that nobody entered: %v", err)
	}
}
