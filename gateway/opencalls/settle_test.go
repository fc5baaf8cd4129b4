package opencalls

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
)

// settling runs a settler in a bubble of fake time.
func settling(t *testing.T, nodes *nodestest.Nodes, test func(t *testing.T, s *settler, reconciled chan End)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes.Change(func() {}) // its channel belongs to the bubble from here on
		nodes.Rebind()
		reconciled := make(chan End, 10)
		s := newSettler(nodes, func(_ context.Context, _ Call, e End, _ time.Duration) { reconciled <- e })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.run(ctx) }()
		defer func() { cancel(); <-done; s.close() }()
		test(t, s, reconciled)
	})
}

func openRow(call capabilities.CallID) Call {
	return Call{ID: call, Node: "n1", Created: time.Now(), State: Open}
}

func TestSettlerAsksUntilTheNodeTells(t *testing.T) {
	nodes := nodestest.New("n1")
	settling(t, nodes, func(t *testing.T, s *settler, _ chan End) {
		told := s.add(openRow("c1"), time.Now().Add(time.Minute))
		time.Sleep(10 * time.Second)
		select {
		case e := <-told:
			t.Fatalf("told %+v of a call that runs", e)
		default:
		}
		if n := nodes.Asked(); n < 2 || n > 2+int(10*time.Second/askEvery) {
			t.Errorf("asked %d times in 10 s", n)
		}
		nodes.Set(func() { nodes.Tell = nodestest.Finished(`{"result":1}`) })
		if e := <-told; e.Err != nil || string(e.Answer.Output) != `{"result":1}` {
			t.Errorf("%+v", e)
		}
		before := nodes.Asked()
		time.Sleep(time.Hour)
		if n := nodes.Asked(); n != before {
			t.Errorf("asked %d times more with nothing open", n-before)
		}
	})
}

func TestSettlerGivesUpInTime(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Roster[0].Connected = false
	settling(t, nodes, func(t *testing.T, s *settler, reconciled chan End) {
		began := time.Now()
		e := <-s.add(openRow("c1"), began.Add(time.Minute))
		if e.Err == nil || e.Err.Code != capabilities.CodeUnknownOutcome {
			t.Fatalf("%+v", e)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+2*askEvery {
			t.Errorf("after %s", took)
		}
		if n := nodes.Asked(); n != 0 {
			t.Errorf("asked a node that is away %d times", n)
		}
		// Only what was recorded as unknown can be reconciled: whoever records watches.
		nodes.Set(func() { nodes.Tell = nodestest.Finished(`{}`) })
		nodes.Connect(0, true)
		synctest.Wait()
		if len(reconciled) != 0 {
			t.Fatal("a reconciliation overtook the outcome it corrects")
		}
		s.watch(openRow("c1"))
		if e := <-reconciled; e.Err != nil || e.Answer.Status != capabilities.StatusOK {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Minute)
		if len(reconciled) != 0 {
			t.Error("reconciled twice")
		}
	})
}

func TestSettlerAsksWhenTheNodeIsBack(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Roster[0].Connected = false
	nodes.Tell = nodestest.Says(wire.StateNeverStarted)
	settling(t, nodes, func(t *testing.T, s *settler, _ chan End) {
		told := s.add(openRow("c1"), time.Now().Add(time.Minute))
		synctest.Wait()
		began := time.Now()
		nodes.Connect(0, true)
		if e := <-told; e.Err == nil || e.Err.Code != capabilities.CodeNodeDisconnected {
			t.Errorf("%+v", e)
		}
		if time.Since(began) > askEvery {
			t.Errorf("asked %s after it came back", time.Since(began))
		}
	})
}

// A node that was put out will never tell.
func TestSettlerDoesNotWaitForTheRevoked(t *testing.T) {
	nodes := nodestest.New("n1")
	settling(t, nodes, func(t *testing.T, s *settler, reconciled chan End) {
		told := s.add(openRow("c1"), time.Now().Add(time.Hour))
		s.watch(openRow("c2"))
		synctest.Wait()
		began := time.Now()
		nodes.Change(func() { nodes.Roster[0].Revoked, nodes.Roster[0].Connected = true, false })
		if e := <-told; e.Err == nil || e.Err.Code != capabilities.CodeUnknownOutcome || time.Since(began) > askEvery {
			t.Errorf("%+v after %s", e, time.Since(began))
		}
		synctest.Wait()
		if s.count() != 0 || len(reconciled) != 0 {
			t.Errorf("%d still watched, %d reconciled", s.count(), len(reconciled))
		}
	})
}

func TestSettlerBearsFailingQuestions(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Deaf = errors.New("gone again")
	settling(t, nodes, func(t *testing.T, s *settler, _ chan End) {
		told := s.add(openRow("c1"), time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		nodes.Change(func() { nodes.Deaf = nil; nodes.Tell = nodestest.Says(wire.StateUnknown) })
		if e := <-told; e.Err == nil || e.Err.Code != capabilities.CodeUnknownOutcome {
			t.Errorf("%+v", e)
		}
	})
}

// A node speaks about its own calls only.
func TestSettlerHearsNoStrangers(t *testing.T) {
	nodes := nodestest.New("n1", "n2")
	nodes.Tell = func(node capabilities.NodeID, _ capabilities.CallID) wire.JournalState {
		if node == "n2" {
			return wire.JournalState{Call: "c1", State: wire.StateNeverStarted} // not what it was asked
		}
		return wire.JournalState{State: wire.StateRunning}
	}
	settling(t, nodes, func(t *testing.T, s *settler, _ chan End) {
		mine := s.add(openRow("c1"), time.Now().Add(time.Hour))
		other := openRow("c2")
		other.Node = "n2"
		s.add(other, time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		select {
		case e := <-mine:
			t.Errorf("another node ended the call: %+v", e)
		default:
		}
	})
}

func TestSettlerLetsGoAtTheEnd(t *testing.T) {
	nodes := nodestest.New("n1")
	settling(t, nodes, func(t *testing.T, s *settler, reconciled chan End) {
		told := s.add(openRow("c1"), time.Now().Add(time.Hour))
		s.close()
		if e, ok := <-told; ok {
			t.Errorf("%+v", e)
		}
		if e, ok := <-s.add(openRow("c2"), time.Now().Add(time.Hour)); ok {
			t.Errorf("after the end: %+v", e)
		}
	})
}

func TestSettlerForgetsAfterAWeek(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Roster[0].Connected = false
	settling(t, nodes, func(t *testing.T, s *settler, _ chan End) {
		r := openRow("c1")
		r.Created = time.Now().Add(-UnknownMemory + 2*time.Minute)
		s.watch(r)
		time.Sleep(time.Minute)
		if s.count() != 1 {
			t.Error("forgotten too early")
		}
		time.Sleep(2 * time.Minute)
		if s.count() != 0 {
			t.Error("never forgotten")
		}
	})
}

func TestSettlerAsksAboutMoreThanOneFrameHolds(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Tell = nodestest.Finished(`{}`)
	settling(t, nodes, func(t *testing.T, s *settler, _ chan End) {
		var all []<-chan End
		for i := range 3*wire.MaxJournal + 1 {
			all = append(all, s.add(openRow(capabilities.CallID(fmt.Sprint("c", i))), time.Now().Add(time.Hour)))
		}
		for _, c := range all {
			if e := <-c; e.Err != nil {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestWhatTheJournalSays(t *testing.T) {
	blobs := &wire.Answer{Status: capabilities.StatusOK, Blobs: []wire.BlobHead{{Field: "bytesBase64", Size: 3}}}
	for name, c := range map[string]struct {
		state wire.JournalState
		final bool
		code  capabilities.Code
	}{
		"running":                     {wire.JournalState{State: wire.StateRunning}, false, ""},
		"never started":               {wire.JournalState{State: wire.StateNeverStarted}, true, capabilities.CodeNodeDisconnected},
		"unknown":                     {wire.JournalState{State: wire.StateUnknown}, true, capabilities.CodeUnknownOutcome},
		"a state of a later version":  {wire.JournalState{State: "paused"}, true, capabilities.CodeUnknownOutcome},
		"finished":                    {wire.JournalState{State: wire.StateFinished, Answer: &wire.Answer{}}, true, ""},
		"finished, answer forgotten":  {wire.JournalState{State: wire.StateFinished}, true, capabilities.CodeResultExpired},
		"finished, bytes not at hand": {wire.JournalState{State: wire.StateFinished, Answer: blobs}, true, capabilities.CodeResultExpired},
	} {
		e, final := settled(c.state)
		if e.Gone {
			if e.Answer.Status != capabilities.StatusOK {
				t.Errorf("%s: what is gone ended as %q", name, e.Answer.Status)
			}
			e.Err = &capabilities.Error{Code: capabilities.CodeResultExpired}
		}
		code := capabilities.Code("")
		if e.Err != nil {
			code = e.Err.Code
		}
		if final != c.final || code != c.code {
			t.Errorf("%s: %v, %q", name, final, code)
		}
	}
}

// A call whose end cannot be recorded, for a full disk takes nothing, is asked about
// again and again, but at leisure.
func TestSettlerPausesWhereNothingCanBeRecorded(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Tell = nodestest.Finished(`{}`)
	synctest.Test(t, func(t *testing.T) {
		nodes.Rebind()       // its channel belongs to the bubble from here on
		var room atomic.Bool // on the disk
		var tried atomic.Int64
		var s *settler
		s = newSettler(nodes, func(_ context.Context, r Call, _ End, pause time.Duration) {
			if tried.Add(1); !room.Load() {
				s.rewatch(r, pause)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.run(ctx) }()
		defer func() { cancel(); <-done; s.close() }()
		s.watch(openRow("c1"))
		time.Sleep(time.Minute)
		synctest.Wait()
		tries := int(tried.Load())
		if tries < 6 || tries > 12 {
			t.Errorf("tried %d times in a minute", tries)
		}
		if asked := nodes.Asked(); asked != tries {
			t.Errorf("asked %d times for %d tries", asked, tries)
		}
		room.Store(true)
		time.Sleep(MostPause + askEvery)
		if s.count() != 0 {
			t.Error("never recorded")
		}
	})
}
