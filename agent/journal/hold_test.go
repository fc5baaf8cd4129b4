package journal

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

func hold(t testing.TB, j *Journal, id string) {
	t.Helper()
	if err := j.Held(context.Background(), ticket(id)); err != nil {
		t.Fatal(err)
	}
}

func withdraw(t testing.TB, j *Journal, id string) {
	t.Helper()
	if err := j.Withdrawn(capabilities.CallID(id)); err != nil {
		t.Fatal(err)
	}
}

func TestStatesOfHeldCalls(t *testing.T) {
	o := options(t.TempDir())
	j := openWith(t, o)
	for _, id := range []string{"held", "withdrawn", "started", "finished"} {
		hold(t, j, id)
	}
	withdraw(t, j, "withdrawn")
	start(t, j, "started")
	start(t, j, "finished")
	finish(t, j, "finished")
	withdraw(t, j, "started") // says nothing of what started,
	withdraw(t, j, "finished")
	withdraw(t, j, "unheard") // nor of what was never held
	wantState(t, j, "held", wire.StateRunning)
	wantState(t, j, "withdrawn", wire.StateNeverStarted)
	wantState(t, j, "started", wire.StateRunning)
	wantState(t, j, "finished", wire.StateFinished)
	wantState(t, j, "unheard", wire.StateNeverStarted)
	never := func() {
		t.Helper()
		for _, id := range []string{"withdrawn", "started", "finished"} {
			if err := j.Started(t.Context(), ticket(id)); capabilities.CodeOf(err) != capabilities.CodeTicketReplayed {
				t.Errorf("%s started again: %v", id, err)
			}
			if err := j.Held(t.Context(), ticket(id)); capabilities.CodeOf(err) != capabilities.CodeTicketReplayed {
				t.Errorf("%s is held again: %v", id, err)
			}
		}
	}
	never()
	if err := j.Held(t.Context(), ticket("held")); capabilities.CodeOf(err) != capabilities.CodeTicketReplayed {
		t.Errorf("held twice: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := Read(o.Dir, o.Chain)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, r := range log.Records {
		kinds = append(kinds, r.Kind+" "+string(r.Call))
	}
	for i, want := range []string{
		"call.held held", "call.held withdrawn", "call.held started", "call.held finished",
		"call.withdrawn withdrawn", "call.started started", "call.started finished", "call.finished finished",
	} {
		if i >= len(kinds) || kinds[i] != want {
			t.Fatalf("the log says %q", kinds)
		}
	}
	if r := log.Records[0]; r.Tool != "tool.browser.click" || r.Lane != "lane-1" {
		t.Errorf("%+v", r)
	}

	j = openWith(t, o)
	wantState(t, j, "held", wire.StateUnknown)
	wantState(t, j, "withdrawn", wire.StateNeverStarted)
	wantState(t, j, "started", wire.StateUnknown)
	wantState(t, j, "finished", wire.StateFinished)
	never()
	if err := j.Started(t.Context(), ticket("held")); capabilities.CodeOf(err) != capabilities.CodeTicketReplayed {
		t.Errorf("what an earlier process held starts: %v", err)
	}
}

// A started one that was held waits for no disk; it is there with the next sync.
func TestHeldIsDurableAndStartedFollows(t *testing.T) {
	j := openWith(t, options(t.TempDir()))
	hold(t, j, "a")
	j.mu.Lock()
	durable, tail := j.durable.seq, j.tail.seq
	j.mu.Unlock()
	if durable != 1 || tail != 1 {
		t.Errorf("held: %d of %d on disk", durable, tail)
	}
	start(t, j, "a")
	j.mu.Lock()
	durable, tail = j.durable.seq, j.tail.seq
	j.mu.Unlock()
	if durable != 1 || tail != 2 {
		t.Errorf("started: %d of %d on disk", durable, tail)
	}
	if err := j.flush(); err != nil {
		t.Fatal(err)
	}
	if j.durable.seq != 2 {
		t.Error("flushed, and not on disk")
	}
}

// Tickets that are held and never run do not push out what ran, however many come;
// those that run cost nothing of that.
func TestLapsedOnesAreBounded(t *testing.T) {
	now := time.Now()
	o := options(t.TempDir())
	o.Now = func() time.Time { return now }
	j := openWith(t, o)
	for i := range 3 * notesAtOnce {
		id := fmt.Sprint("runs-", i)
		hold(t, j, id)
		start(t, j, id)
	}
	before := j.tail.seq
	for i := range 10 * notesAtOnce {
		id := fmt.Sprint("lapses-", i)
		hold(t, j, id)
		withdraw(t, j, id)
	}
	if n := j.tail.seq - before; n != 2*notesAtOnce {
		t.Errorf("%d records of tickets that never ran", n)
	}
	// Without a record of its own, a held one starts as any other does.
	hold(t, j, "late")
	wantState(t, j, "late", wire.StateNeverStarted)
	start(t, j, "late")
	if wantState(t, j, "late", wire.StateRunning); j.durable.seq != j.tail.seq {
		t.Error("started, and not on disk")
	}
	now = now.Add(time.Second)
	before = j.tail.seq
	for i := range 10 {
		hold(t, j, fmt.Sprint("later-", i))
	}
	if n := j.tail.seq - before; n != notesEach {
		t.Errorf("%d more after a second", n)
	}
}
