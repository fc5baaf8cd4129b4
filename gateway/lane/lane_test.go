package lane_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
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

// Attaching and detaching in any order, with restarts in between, gives what a
// plain set gives.
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

// Use is noted in memory and written down by Run; what holds nothing and was not
// used for a month is forgotten.
func TestUseIsWrittenDownAndOldLanesGo(t *testing.T) {
	db := open(t)
	synctest.Test(t, func(t *testing.T) {
		// The pool behind Read keeps goroutines of its own, outside this bubble.
		l := mustNew(t, db)
		ctx, cancel := context.WithCancel(context.Background())
		for _, name := range []capabilities.LaneID{"used", "old", "held"} {
			if err := l.Enter(ctx, alice, name); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Attach(ctx, operator, "held", "n1"); err != nil {
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
		if !slices.Equal(names, []capabilities.LaneID{"held", "used"}) {
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

// What is attached to the lane named like its principal holds in all the
// principal's lanes that have nothing of their own, and in nobody else's.
func TestHomeLane(t *testing.T) {
	l := lanes(t, lane.Options{Store: open(t)})
	ctx, op := t.Context(), operator
	for _, lane := range []capabilities.LaneID{"alice", "a-1", "a-2"} {
		if err := l.Enter(ctx, alice, lane); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Enter(ctx, bob, "b-1"); err != nil {
		t.Fatal(err)
	}
	for lane, node := range map[capabilities.LaneID]capabilities.NodeID{"alice": "n1", "a-2": "n2", "stray": "n3"} {
		if _, err := l.Attach(ctx, op, lane, node); err != nil {
			t.Fatal(err)
		}
	}
	for lane, want := range map[capabilities.LaneID][]capabilities.NodeID{
		"alice": {"n1"}, "a-1": {"n1"}, "a-2": {"n2"}, "b-1": nil, "stray": {"n3"}, "nosuch": nil,
	} {
		if got := l.Attached(lane); !slices.Equal(got, want) {
			t.Errorf("lane %s goes to %v, want %v", lane, got, want)
		}
	}
	// A lane that is merely named like somebody is not theirs.
	if err := l.Enter(ctx, alice, "bob"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Attach(ctx, op, "bob", "n4"); err != nil {
		t.Fatal(err)
	}
	if got := l.Attached("b-1"); len(got) != 0 {
		t.Errorf("bob's lane goes to %v, which was attached to a lane of alice's", got)
	}
	if _, err := l.Detach(ctx, op, "alice", "n1"); err != nil {
		t.Fatal(err)
	}
	if got := l.Attached("a-1"); len(got) != 0 {
		t.Errorf("after detaching, lane a-1 goes to %v", got)
	}
}
