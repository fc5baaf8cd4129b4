package opencalls

import (
	"context"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/route"
)

const (
	// RecoverWithin is how long a call that a crash left open waits for its node
	// before its outcome is declared unknown.
	RecoverWithin = 2 * time.Minute
	// SettleGrace is how long past its own deadline a call waits for its node to
	// come back and tell.
	SettleGrace = 10 * time.Second
	// askEvery is how often a node is asked about a call that it says still runs.
	askEvery = 250 * time.Millisecond
	// AskWithin bounds one question to a node.
	AskWithin = 5 * time.Second
	// LeastPause and MostPause bound how long a call waits to be asked about again after
	// its end could not be recorded: a full disk stays full for a while.
	LeastPause = time.Second
	MostPause  = 10 * time.Second
)

// waiting is a call whose node has to say what became of it.
type waiting struct {
	call  Call
	until time.Time // when waiting ends in "unknown outcome"
	told  chan End  // takes the end, once; nil when nobody waits any more
	asked time.Time // last time the node was asked
	// pause is how long not to ask after that; askEvery at least.
	pause time.Duration
	node  capabilities.NodeID
}

// settler asks nodes, when they are there, about the calls that a lost
// connection or a crash left open (docs/architecture.md, "One call, hop by hop").
type settler struct {
	nodes Nodes
	// reconcile takes a late answer to a call told unknown, and the pause after the last
	// time that it could not be recorded.
	reconcile func(ctx context.Context, r Call, e End, pause time.Duration)

	mu     sync.Mutex
	closed bool
	open   map[capabilities.CallID]*waiting
	wake   chan struct{}
}

func newSettler(nodes Nodes, reconcile func(context.Context, Call, End, time.Duration)) *settler {
	return &settler{nodes: nodes, reconcile: reconcile, open: map[capabilities.CallID]*waiting{}, wake: make(chan struct{}, 1)}
}

// add hands a call to the settler. The channel delivers its end; CodeUnknownOutcome
// when the node did not tell until then; it closes without one at shutdown.
func (s *settler) add(r Call, until time.Time) <-chan End {
	told := make(chan End, 1)
	s.put(&waiting{call: r, until: until, told: told, node: r.Node})
	return told
}

// watch hands over a call whose caller has its answer already: "unknown", or one
// that could not be recorded.
func (s *settler) watch(r Call) { s.put(&waiting{call: r, node: r.Node}) }

// rewatch hands over a call whose end its node told and could not be recorded, the pause
// after the last failure being given. It returns the pause this time.
func (s *settler) rewatch(r Call, last time.Duration) time.Duration {
	pause := min(max(LeastPause, 2*last), MostPause)
	s.put(&waiting{call: r, node: r.Node, asked: time.Now(), pause: pause})
	return pause
}

func (s *settler) put(u *waiting) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		if u.told != nil {
			close(u.told)
		}
		return
	}
	s.open[u.call.ID] = u
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run asks until ctx ends. Calls that still wait then stay open: the next
// process takes them up.
func (s *settler) run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		changed := s.nodes.Changed()
		s.round(ctx)
		// With nothing open there is nothing to tick for.
		var ticks <-chan time.Time
		if s.count() > 0 {
			ticks = tick.C
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-s.wake:
		case <-ticks:
		}
	}
}

// close lets go of everyone who waits: their channels close without an end, and
// their calls stay open for the next process.
func (s *settler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, u := range s.open {
		if u.told != nil {
			close(u.told)
			u.told = nil
		}
	}
}

func (s *settler) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *settler) awaits(call capabilities.CallID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[call] != nil
}

// round asks every connected node about its open calls, and gives up on those
// whose time has come.
func (s *settler) round(ctx context.Context) {
	if s.count() == 0 {
		return
	}
	now := time.Now()
	roster := s.nodes.Snapshot()
	byNode := map[capabilities.NodeID]*wire.JournalAsk{}
	s.mu.Lock()
	for id, u := range s.open {
		// A node that was put out is not let in again to tell.
		if out := PutOut(byID(roster, u.node)); out && u.told == nil {
			delete(s.open, id)
			continue
		} else if u.told != nil && (out || now.After(u.until)) {
			// The one that records it watches on: a later word is then a reconciliation,
			// and cannot overtake this one.
			u.told <- End{Err: &capabilities.Error{Code: capabilities.CodeUnknownOutcome}}
			delete(s.open, id)
			continue
		}
		if u.told == nil && now.Sub(u.call.Created) > UnknownMemory {
			delete(s.open, id)
			continue
		}
		if now.Sub(u.asked) < max(askEvery, u.pause) {
			continue
		}
		ask := byNode[u.node]
		if ask == nil {
			ask = &wire.JournalAsk{}
			byNode[u.node] = ask
		}
		if len(ask.Calls) < wire.MaxJournal {
			ask.Calls, ask.Recalls = append(ask.Calls, id), append(ask.Recalls, u.call.Recall)
		}
	}
	s.mu.Unlock()
	if len(byNode) == 0 {
		return
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, n := range roster {
		ask := byNode[n.ID]
		if ask == nil || !n.Connected {
			continue
		}
		// Side by side: a node that does not answer must not hold up the others.
		asking.Go(func() { s.ask(ctx, n.ID, ask) })
	}
}

// PutOut reports that a node is none of the site any more.
func PutOut(n *route.Node) bool {
	return n == nil || n.Revoked || n.Paired == route.StateRevoked || n.Paired == route.StateDenied
}

func (s *settler) ask(ctx context.Context, node capabilities.NodeID, ask *wire.JournalAsk) {
	askCtx, cancel := context.WithTimeout(ctx, AskWithin)
	defer cancel()
	states, err := s.nodes.Ask(askCtx, node, ask)
	s.mu.Lock()
	for _, id := range ask.Calls {
		if u := s.open[id]; u != nil {
			u.asked = time.Now()
		}
	}
	s.mu.Unlock()
	if err != nil {
		return // it went away again; the next round asks anew
	}
	for _, st := range states {
		e, final := settled(st)
		if !final {
			continue
		}
		s.mu.Lock()
		u := s.open[st.Call]
		if u == nil || u.node != node { // a node speaks for its own calls only
			s.mu.Unlock()
			continue
		}
		delete(s.open, st.Call)
		told := u.told
		s.mu.Unlock()
		if told != nil {
			told <- e
		} else {
			s.reconcile(ctx, u.call, e, u.pause)
		}
	}
}

// settled reads the journal's word. final is false while the call runs.
func settled(st wire.JournalState) (e End, final bool) {
	switch st.State {
	case wire.StateRunning:
		return End{}, false
	case wire.StateNeverStarted:
		return End{Err: &capabilities.Error{Code: capabilities.CodeNodeDisconnected}}, true
	case wire.StateFinished:
		// It ran; its output, or the bytes that belong to it, may be gone. Of a failure
		// the node's journal keeps all that there is.
		if st.Answer == nil {
			return End{Answer: wire.Answer{Status: capabilities.StatusOK}, Gone: true, Started: true}, true
		}
		if len(st.Answer.Blobs) > 0 {
			return End{Answer: *st.Answer, Gone: true, Started: true}, true
		}
		return End{Answer: *st.Answer, Started: true}, true
	}
	return End{Err: &capabilities.Error{Code: capabilities.CodeUnknownOutcome}}, true
}

func byID(roster []route.Node, id capabilities.NodeID) *route.Node {
	for i := range roster {
		if roster[i].ID == id {
			return &roster[i]
		}
	}
	return nil
}
