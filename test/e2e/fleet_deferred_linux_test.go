package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/desk"
)

// TestDeferredCallsAtOnce: a call that nobody answered in time is kept by the gateway that asked.
// That one is killed; another asks anew, carries the call out once, and a third tells its result.
func TestDeferredCallsAtOnce(t *testing.T) {
	f := startsAtOnce(t, "one", "two", "three")
	first, second, third := f.all[0], f.all[1], f.all[2]
	later := strings.Replace(string(policy.DefaultSource()), `@id("workspace-change")`, `@id("workspace-change") @defer("8h")`, 1)
	must(t, os.WriteFile(filepath.Join(f.home, "one/gateway/policy", policy.DefaultName), []byte(later), 0o600))
	first.does("policy", "activate", "--yes")
	writes := func(p *person) (r capabilities.Result, out string) {
		out, _ = p.tries("", "call", "--agent", "tool.fs.write", `{"path":"b.txt","content":"x"}`, "--json")
		_ = json.Unmarshal([]byte(strings.TrimSpace(out)), &r)
		return r, out
	}
	if r, out := writes(first); r.Code != capabilities.CodeApprovalPending || !strings.Contains(out, `"task":"t-`) {
		t.Fatalf("a call that nobody answers: %s", out)
	}
	tasks := func(p *person) []api.Task { return items[api.Task](p, "tasks") }
	desk.Await(t, "the others to know it", func() bool { return len(tasks(second)) == 1 && len(tasks(third)) == 1 })
	before := items[api.Approval](second, "approvals")
	if len(before) != 1 {
		t.Fatalf("%+v", before)
	}
	f.run[0].signal(syscall.SIGKILL)
	var anew []api.Approval
	desk.Await(t, "another gateway to ask anew", func() bool {
		anew = items[api.Approval](third, "approvals")
		return len(anew) == 1 && anew[0].ID != before[0].ID
	})
	third.does("approve", anew[0].ID, "--acknowledge")
	desk.Await(t, "the call", func() bool { _, err := os.Stat(filepath.Join(f.home, "files/b.txt")); return err == nil })
	if r, out := writes(third); r.Status != capabilities.StatusOK {
		t.Errorf("its result at another gateway: %s", out)
	}
	if left := tasks(second); len(left) != 0 {
		t.Errorf("it is kept although its caller has it: %+v", left)
	}
	if n := strings.Count(second.does("ledger", "show", "--kind", "gateway.task.resumed", "--json"), `"gateway.task.resumed"`); n != 1 {
		t.Errorf("it was carried out %d times", n)
	}
	if out := second.does("ledger", "verify"); !strings.Contains(out, "verifies") {
		t.Error(out)
	}
}

// TestADeferredCallIsDroppedElsewhere: the call that one gateway keeps is dropped at another. Its
// question ends at both, and it is not carried out.
func TestADeferredCallIsDroppedElsewhere(t *testing.T) {
	f := startsAtOnce(t, "one", "two")
	first, second := f.all[0], f.all[1]
	later := strings.Replace(string(policy.DefaultSource()), `@id("workspace-change")`, `@id("workspace-change") @defer("8h")`, 1)
	must(t, os.WriteFile(filepath.Join(f.home, "one/gateway/policy", policy.DefaultName), []byte(later), 0o600))
	first.does("policy", "activate", "--yes")
	if out, _ := first.tries("", "call", "--agent", "tool.fs.write", `{"path":"b.txt","content":"x"}`, "--json"); !strings.Contains(out, `"task":"t-`) {
		t.Fatalf("a call that nobody answers: %s", out)
	}
	var kept []api.Task
	desk.Await(t, "the other to know it", func() bool { kept = items[api.Task](second, "tasks"); return len(kept) == 1 })
	second.does("tasks", "--drop", kept[0].ID)
	for i, at := range f.all {
		desk.Await(t, "nothing to wait at "+f.names[i], func() bool {
			return len(items[api.Task](at, "tasks")) == 0 && len(items[api.Approval](at, "approvals")) == 0
		})
	}
	if _, err := os.Stat(filepath.Join(f.home, "files/b.txt")); err == nil {
		t.Error("it was carried out")
	}
	if out := first.does("ledger", "verify"); !strings.Contains(out, "verifies") {
		t.Error(out)
	}
}
