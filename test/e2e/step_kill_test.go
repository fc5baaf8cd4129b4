package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/site"
)

// longCall is a call that takes many steps, which take their time.
func longCall(round, steps int) (args string, at func(i int) string) {
	at = func(i int) string { return fmt.Sprintf("nap-%d-%d", round, i) }
	var list []map[string]any
	for i := range steps {
		list = append(list, map[string]any{"tool": site.ToolEcho, "args": text(at(i))})
	}
	b, err := json.Marshal(map[string]any{"text": fmt.Sprintf("parent-%d", round), "steps": list})
	if err != nil {
		panic(err)
	}
	return string(b), at
}

// Gateway and node are killed in the middle of calls that take steps. No step runs twice
// or unrecorded, every step and every call ends, and the two ledgers agree.
func TestKillAmidSteps(t *testing.T) { killedAmidSteps(t, 2) }

func TestKillAmidStepsAtLength(t *testing.T) { killedAmidSteps(t, 8) }

// killedAmidSteps kills the node and the gateway in turn.
func killedAmidSteps(t *testing.T, rounds int) {
	t.Parallel()
	const steps = 40
	s := startStation(t, t.TempDir())
	dir, id := s.join()
	device := startChild(t, childOptions{Role: "node", Dir: dir, QUIC: s.o.QUIC, Witness: s.witness})
	s.awaitNode(id)
	for round := range rounds {
		args, at := longCall(round, steps)
		done := make(chan capabilities.Result, 1)
		go func() { done <- s.persist(site.ToolConduct, args, fmt.Sprintf("r%d", round)) }()
		awaitRan(t, s.witness, at(2+round*3))
		if round%2 == 0 {
			device.kill()
			device = startChild(t, device.o)
		} else {
			s.child.kill()
			s.restart()
		}
		s.awaitNode(id)
		if r := <-done; r.Status == capabilities.StatusOK {
			t.Errorf("round %d: the call ended well although a side was killed", round)
		}
	}
	args, at := longCall(rounds, 5) // the control
	if r := s.persist(site.ToolConduct, args, "last"); r.Status != capabilities.StatusOK {
		t.Errorf("%s %s", r.Code, r.Message)
	}

	all, runs := s.check(), ran(t, s.witness)
	recorded := 0
	for _, st := range all {
		if st.tool == site.ToolEcho && st.has("dispatch") {
			recorded++
			if !bytes.Contains(st.bodys[len(st.bodys)-1], []byte(`"parent_call_id"`)) {
				t.Errorf("the end of step %s does not name its parent: %s", st.call, st.bodys[len(st.bodys)-1])
			}
		}
	}
	ranSteps := 0
	for name, n := range runs {
		if n > 1 {
			t.Errorf("grave: %s ran %d times", name, n)
		}
		if strings.HasPrefix(name, "nap-") {
			ranSteps++
		}
	}
	if ranSteps > recorded || runs[at(4)] != 1 {
		t.Errorf("%d steps ran, %d are recorded", ranSteps, recorded)
	}
	s.agrees(dir, id)
}

// agrees holds the ledger against the log of a node.
func (s *station) agrees(dir string, id capabilities.NodeID) {
	s.t.Helper()
	var c ledger.Comparison
	for end := time.Now().Add(site.Within); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		status, export := s.admin.do(http.MethodGet, "/v1/ledger/export", "")
		if status != http.StatusOK {
			s.t.Fatalf("export: %d", status)
		}
		log, err := journal.Read(journal.Dir(dir, string(id)), string(id))
		must(s.t, err)
		c, err = ledger.Compare(bytes.NewReader(export), ledger.Pins{Keys: []chain.Key{s.key}}, nodeLog(log))
		must(s.t, err)
		if len(c.Differences) > 0 {
			break
		}
		if c.Witnessed == uint64(c.NodeEntries) { // what a kill left without an end stays so on the node
			return
		}
	}
	s.t.Errorf("the ledgers do not agree: %+v", c)
}
