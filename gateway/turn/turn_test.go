package turn_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	claim "github.com/handrail-dev/handrail/capabilities/turn"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/turn"
)

var at = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, now func() time.Time) (*turn.Turns, *[]string) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Migrations: turn.Migrations(), ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var recorded []string
	turns, err := turn.New(turn.Options{Store: db, Now: now, Record: func(_ *store.Tx, kind string, p capabilities.PrincipalID, body any) (uint64, error) {
		recorded = append(recorded, fmt.Sprint(kind, " ", p, " ", body.(turn.Recorded).Stage.Stage))
		return uint64(len(recorded)), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return turns, &recorded
}

func made(session string) claim.Claim {
	return claim.Claim{Session: session, Started: at, Ended: at, Stages: []claim.Stage{
		{Stage: claim.Router, At: at, Router: &claim.Routed{Intent: "file_task", Confidence: 0.7, By: "signals"}},
		{Stage: claim.Pipeline, At: at, Pipeline: &claim.Summarised{Intent: "file_task", Confidence: 0.7}},
	}}
}

// TestTurnsAreTheirPrincipals: a turn is kept once with a packet for each stage and one for the
// whole, and is seen by its principal and by nobody else (S2-42, S2-43).
func TestTurnsAreTheirPrincipals(t *testing.T) {
	turns, recorded := open(t, func() time.Time { return at })
	first, err := turns.Put(t.Context(), "anna", made("s1"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := turns.Put(t.Context(), "anna", made("s1"))
	if err != nil || again.ID != first.ID {
		t.Errorf("%v %s %s", err, first.ID, again.ID)
	}
	other, err := turns.Put(t.Context(), "ben", made("s1"))
	if err != nil || other.ID == first.ID {
		t.Errorf("%v %s", err, other.ID)
	}
	if got := fmt.Sprint(*recorded); got != "[worker.stage anna ROUTER_OUTPUT worker.turn anna PIPELINE worker.stage ben ROUTER_OUTPUT worker.turn ben PIPELINE]" {
		t.Errorf("recorded %s", got)
	}
	if list, err := turns.List(t.Context(), turn.Query{Principal: "anna", Session: "s1", Limit: 10}); err != nil || len(list) != 1 || list[0].Claim.Stages[0].Router.Intent != "file_task" {
		t.Errorf("%v %+v", err, list)
	}
	if list, err := turns.List(t.Context(), turn.Query{Limit: 10}); err != nil || len(list) != 2 || list[0].ID != other.ID {
		t.Errorf("%v %+v", err, list)
	}
	if _, err := turns.Get(t.Context(), "ben", first.ID); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error(err)
	}
	if _, err := turns.Put(t.Context(), "anna", claim.Claim{}); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Error(err)
	}
}

// TestRowsGoAfterTheirTime: packets stay, rows are swept.
func TestRowsGoAfterTheirTime(t *testing.T) {
	now := at
	turns, _ := open(t, func() time.Time { return now })
	if _, err := turns.Put(t.Context(), "anna", made("s1")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(31 * 24 * time.Hour)
	if _, err := turns.Put(t.Context(), "anna", made("s2")); err != nil {
		t.Fatal(err)
	}
	if err := turns.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := turns.List(t.Context(), turn.Query{Limit: 10}); err != nil || len(list) != 1 || list[0].Claim.Session != "s2" {
		t.Errorf("%v %+v", err, list)
	}
}

// TestAWorkerNamesItsTurn: a turn has the ID that its worker chose, so that a fact can name it, and
// no other claim takes the ID over.
func TestAWorkerNamesItsTurn(t *testing.T) {
	turns, _ := open(t, func() time.Time { return at })
	named := made("s1")
	named.Turn = "turn_0123456789abcdef"
	for range 2 { // the same again is the same turn
		if one, err := turns.Put(t.Context(), "anna", named); err != nil || one.ID != named.Turn {
			t.Fatalf("%+v %v", one, err)
		}
	}
	other := made("s2")
	other.Turn = named.Turn
	for _, c := range []struct {
		p     capabilities.PrincipalID
		claim claim.Claim
	}{{"anna", other}, {"ben", named}, {"ben", other}} {
		if _, err := turns.Put(t.Context(), c.p, c.claim); capabilities.CodeOf(err) != capabilities.CodeConflict {
			t.Errorf("%s takes it over: %v", c.p, err)
		}
	}
	if one, err := turns.Get(t.Context(), "anna", named.Turn); err != nil || one.Claim.Session != "s1" {
		t.Errorf("%+v %v", one, err)
	}
	for _, id := range []string{"turn_", "turn_0123456789ABCDEF", "job_0123456789abcdef", "turn_0123456789abcdef0"} {
		if other.Turn = id; capabilities.CodeOf(other.Validate()) != capabilities.CodeInvalidRequest {
			t.Errorf("%q is an ID", id)
		}
	}
}

const id = "turn_0123456789abcdef"

// says is the word of a worker that a turn runs, with its first stages.
func says(session string, stages ...claim.Stage) claim.Claim {
	return claim.Claim{Turn: id, Session: session, State: claim.Running, Started: at, Stages: append(made("").Stages[:1:1], stages...)}
}

var call = claim.Stage{Stage: claim.ToolCall, At: at, Call: &claim.Called{Tool: "tool.fs.read", CallID: "c-1", Status: "ok"}}

// TestATurnIsKnownFromItsBeginning: a turn that runs is kept with its stages, renewed by each word,
// and recorded once it has ended. Without a word it is lost after its lease, and found again by the
// next (S2-43).
func TestATurnIsKnownFromItsBeginning(t *testing.T) {
	now := at
	turns, recorded := open(t, func() time.Time { return now })
	put := func(p capabilities.PrincipalID, c claim.Claim, code capabilities.Code) turn.Turn {
		t.Helper()
		one, err := turns.Put(t.Context(), p, c)
		if capabilities.CodeOf(err) != code {
			t.Fatalf("%v, want %q", err, code)
		}
		return one
	}
	is := func(state claim.State, stages int) {
		t.Helper()
		one, err := turns.Get(t.Context(), "anna", id)
		if err != nil || one.Claim.State != state || len(one.Claim.Stages) != stages {
			t.Fatalf("%+v %v, want %s with %d stages", one, err, state, stages)
		}
		for _, s := range []claim.State{"", claim.Running, claim.Lost, claim.Ended} {
			list, err := turns.List(t.Context(), turn.Query{State: s, Limit: 10})
			if err != nil || (len(list) == 1) != (s == "" || s == state) || len(list) == 1 && list[0].Claim.State != state {
				t.Fatalf("those in the state %q are %+v, %v", s, list, err)
			}
		}
	}
	moved := turns.Moved()
	if one := put("anna", says("s1"), ""); one.ID != id || !one.Until.Equal(at.Add(turn.Lease)) {
		t.Errorf("%+v", one)
	}
	<-moved
	is(claim.Running, 1)
	now = at.Add(40 * time.Second)
	put("anna", says("s1", call), "")
	moved = turns.Moved()
	put("anna", says("s1"), "") // a word of before that was late renews, and takes nothing back
	select {
	case <-moved:
		t.Error("a renewal is a change")
	default:
	}
	is(claim.Running, 2)
	now = now.Add(turn.Lease - 1)
	is(claim.Running, 2)
	now = now.Add(1)
	is(claim.Lost, 2)
	for _, c := range []struct {
		p    capabilities.PrincipalID
		word claim.Claim
	}{{"ben", says("s1")}, {"anna", says("s2")}} {
		put(c.p, c.word, capabilities.CodeConflict)
	}
	put("anna", says("s1", call), "") // it had slept
	is(claim.Running, 2)
	if len(*recorded) != 0 {
		t.Errorf("recorded before its end: %q", *recorded)
	}
	ended := made("s1")
	ended.Turn = id
	for range 2 {
		if one := put("anna", ended, ""); one.First != 1 || one.Claim.State != claim.Ended {
			t.Errorf("%+v", one)
		}
		if one := put("anna", says("s1", call), ""); one.Claim.State != claim.Ended { // one that was late
			t.Errorf("%+v", one)
		}
	}
	now = now.Add(turn.Lease)
	is(claim.Ended, 2)
	if len(*recorded) != 2 {
		t.Errorf("recorded %q", *recorded)
	}
	ended.Ended = at.Add(1)
	put("anna", ended, capabilities.CodeConflict)
}
