package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/site"
)

// didNotRun are the codes that promise that nothing was executed.
var didNotRun = map[capabilities.Code]bool{
	capabilities.CodeAmbiguousNode: true, capabilities.CodeNodeNotReady: true, capabilities.CodeCapabilityNotAdvertised: true,
	capabilities.CodeNodeDisconnected: true, capabilities.CodeLedgerUnavailable: true, capabilities.CodeTicketExpired: true,
	capabilities.CodeOverloaded: true,
}

// mayHaveRun are the codes that say that it ran, or that nobody knows.
var mayHaveRun = map[capabilities.Code]bool{capabilities.CodeUnknownOutcome: true, capabilities.CodeResultExpired: true}

// Gateway and nodes are killed at random moments under load. Nothing runs twice,
// every call ends, every caller who asks again is told the truth, and the chain
// holds.
func TestKill(t *testing.T) { killed(t, 8) }

func TestKillAtLength(t *testing.T) { killed(t, 32) }

func killed(t *testing.T, kills int) {
	t.Parallel()
	const callers, enough = 8, 100 // so many calls go through, or the kills met nothing
	s := startStation(t, t.TempDir())
	var devices [2]*child
	var ids [2]capabilities.NodeID
	for i := range devices {
		dir, id := s.join()
		ids[i] = id
		devices[i] = startChild(t, childOptions{Role: "node", Dir: dir, QUIC: s.o.QUIC, Witness: s.witness})
		s.awaitNode(id)
	}

	var stop atomic.Bool
	var through atomic.Int64
	var mu sync.Mutex
	told := map[string]capabilities.Result{}
	var working sync.WaitGroup
	for i := range callers {
		working.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			for n := 0; !stop.Load(); n++ {
				name := fmt.Sprintf("%s-%d-%d", []string{"now", "nap"}[rng.IntN(2)], i, n)
				r := s.persist(site.ToolEcho, fmt.Sprintf(`{"text":%q,"node_id":%q}`, name, ids[rng.IntN(2)]), name)
				mu.Lock()
				told[name] = r
				mu.Unlock()
				if r.Status == capabilities.StatusOK {
					through.Add(1)
				}
				if didNotRun[r.Code] {
					// The node is away. All callers are one principal, and one that is refused
					// more than twenty times a second is soon refused without a record.
					time.Sleep(300 * time.Millisecond)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(4, 4))
	done := 0
	for ; done < kills || through.Load() < enough && done < 4*kills; done++ {
		time.Sleep(time.Duration(rng.Int64N(int64(300 * time.Millisecond)))) // at any moment of a call's life
		if i := rng.IntN(4); i < 2 {
			devices[i].kill()
			devices[i] = startChild(t, devices[i].o)
		} else {
			s.child.kill()
			s.restart()
		}
	}
	for _, id := range ids {
		s.awaitNode(id)
	}
	stop.Store(true)
	working.Wait()

	ledger, runs, codes := s.check(), ran(t, s.witness), map[capabilities.Code]int{}
	if len(s.keptHeads()) == 0 {
		t.Error("no node keeps a head of the gateway's ledger")
	}
	for name, n := range runs {
		if n > 1 {
			t.Errorf("grave: %s ran %d times", name, n)
		}
	}
	for name, r := range told {
		codes[r.Code]++
		st := ledger[r.Call]
		switch {
		case st == nil:
			t.Errorf("%s: the ledger knows nothing of call %s (%s)", name, r.Call, r.Code)
		case r.Status == capabilities.StatusOK:
			if runs[name] != 1 || string(r.Output) != text(name) || !st.has("result") && !st.has("reconciled") {
				t.Errorf("grave: %s was told %s, ran %d times, the ledger says %q", name, r.Output, runs[name], st.kinds)
			}
		case didNotRun[r.Code]:
			if runs[name] != 0 {
				t.Errorf("%s was told %s and ran", name, r.Code)
			}
		case !mayHaveRun[r.Code]:
			t.Errorf("%s was told %s: %s", name, r.Code, r.Message)
		}
	}
	open := 0
	for _, st := range ledger {
		if st.has("dispatch") && st.end() != "" {
			open++
		}
	}
	t.Logf("%d requests, %d executions, %d kills, %d calls ended otherwise: %v", len(told), len(runs), done, open, codes)
	if codes[""] < enough {
		t.Error("too little went through to mean anything")
	}
}

// persist repeats a call, under its request ID, until it is answered.
func (s *station) persist(tool capabilities.ToolID, args, id string) capabilities.Result {
	for {
		if r, err := s.call(ctx(), tool, args, id); err == nil {
			return r
		}
		time.Sleep(10 * time.Millisecond) // there is no gateway at the moment
	}
}
