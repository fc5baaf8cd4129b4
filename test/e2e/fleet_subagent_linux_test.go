package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/desk"
)

// TestASubAgentAtOnce: a sub-agent is called at one gateway, and its task is done by a worker at
// another. The calls that the worker makes are made inside the first one's call.
func TestASubAgentAtOnce(t *testing.T) {
	f := startsAtOnce(t, "one", "two")
	first, second := f.all[0], f.all[1]
	file := filepath.Join(f.home, "reader.yaml")
	must(t, os.WriteFile(file, []byte(readerAgent), 0o600))
	second.does("provider", "add", "sub-agent", "reader", file, "--yes")
	desk.Await(t, "the sub-agent to be offered at the first", func() bool {
		return strings.Contains(first.does("tools", "list", "--json"), "tool.sub-agent.reader")
	})
	type ended struct {
		r   capabilities.Result
		out string
	}
	calls := make(chan ended, 1)
	go func() {
		var e ended
		e.out, _ = first.tries("", "call", "--agent", "tool.sub-agent.reader", `{"task":"read a.txt"}`, "--json")
		_ = json.Unmarshal([]byte(strings.TrimSpace(e.out)), &e.r)
		calls <- e
	}()
	desk.Await(t, "its task at the second", func() bool { return strings.Contains(second.does("jobs", "--json"), "read a.txt") })
	second.does("worker", "--offline", "--once", "--name", "far")
	e := <-calls
	if e.r.Status != capabilities.StatusOK || !strings.Contains(string(e.r.Output), "hello") {
		t.Fatalf("%s", e.out)
	}
	requests := first.does("ledger", "show", "--kind", "tool.call.request", "--json", "--limit", "50")
	if inside := `"parent_call_id":"` + string(e.r.Call) + `"`; !strings.Contains(requests, inside) {
		t.Errorf("no call has %s: %s", inside, requests)
	}
	if out := second.does("ledger", "verify"); !strings.Contains(out, "verifies") {
		t.Error(out)
	}
}
