package e2e

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// TestAWorkerElsewhere: a worker in a directory of its own joins with a code, gets nothing until a
// person let it in, does a job as a principal of its own, and is refused at once when it is
// revoked.
func TestAWorkerElsewhere(t *testing.T) {
	w := newWorked(t)
	far := privateDir(t)
	box := &person{t: t, program: w.program, env: append(w.env[:len(w.env):len(w.env)], "HANDRAIL_DATA="+filepath.Join(far, "data"))}
	code := strings.TrimSpace(w.does("worker", "add", "box", "--no-wait"))
	joins := exec.CommandContext(t.Context(), box.program, "worker", "join", "--json")
	joins.Env, joins.Stdin = box.env, strings.NewReader(code)
	said, err := joins.StdoutPipe()
	must(t, err)
	must(t, joins.Start())
	var waits struct {
		Event  string `json:"event"`
		Worker string `json:"worker_id"`
		Key    string `json:"key"`
	}
	lines := bufio.NewReader(said)
	line, err := lines.ReadBytes('\n')
	must(t, err)
	must(t, json.Unmarshal(line, &waits))
	all := items[api.Worker](w.person, "worker", "list")
	if waits.Event != "pending" || len(all) != 1 || all[0].State != "pending" || all[0].ID != waits.Worker || all[0].Key != waits.Key || all[0].Token != "" {
		t.Fatalf("it says %+v, and the gateway %+v", waits, all)
	}
	box.refuses("node_not_paired", 1, "worker", "--gateway", "joined", "--offline", "--once")
	if out, exit := box.tries(code, "worker", "join"); exit == 0 || !strings.Contains(out, string(capabilities.CodePasteUsed)) {
		t.Errorf("the code let in another one (%d): %s", exit, out)
	}

	w.does("worker", "approve", waits.Worker)
	must(t, joins.Wait())
	job := strings.Fields(w.does("jobs", "add", "--principal", "box", "/file read a.txt"))[0]
	if out := box.does("worker", "--gateway", "joined", "--offline", "--once"); !strings.Contains(out, job+" done") {
		t.Errorf("the worker said %s", out)
	}
	if out := w.does("jobs", "show", job); !strings.Contains(out, "The rent is 700.") {
		t.Error(out)
	}
	if calls := items[api.Call](w.person, "calls", "--tool", "tool.fs.read"); len(calls) != 1 || calls[0].Principal != "box" {
		t.Errorf("its calls are %+v", calls)
	}

	runs := exec.CommandContext(t.Context(), box.program, "worker", "--offline", "--json") // the one that it joined, as there is no other
	runs.Env = box.env
	var ends strings.Builder
	runs.Stdout, runs.Stderr = &ends, &ends
	must(t, runs.Start())
	second := strings.Fields(w.does("jobs", "add", "--principal", "box", "/file read a.txt"))[0]
	until(t, "the second job", func() bool { return strings.Contains(w.does("jobs", "show", second), "done") })
	w.does("worker", "revoke", waits.Worker, "--reason", "lost")
	if err := runs.Wait(); err == nil || !strings.Contains(ends.String(), string(capabilities.CodeNodeRevoked)) {
		t.Errorf("the revoked worker ended with %v: %s", err, ends.String())
	}
	if out, exit := box.tries("", "worker", "--gateway", "joined", "--offline", "--once", "--json"); exit == 0 || !strings.Contains(out, string(capabilities.CodeNodeRevoked)) {
		t.Errorf("it came in again (%d): %s", exit, out)
	}
	for _, kind := range []string{"gateway.worker.invited", "gateway.worker.joined", "gateway.worker.decided", "tool.call.result"} {
		if w.does("ledger", "show", "--kind", kind, "--json") == "" {
			t.Errorf("the ledger has no %s", kind)
		}
	}
	text, err := os.ReadFile(filepath.Join(far, "data", "worker.json"))
	must(t, err)
	if info, err := os.Stat(filepath.Join(far, "data", "worker.json")); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(string(text), waits.Worker) {
		t.Errorf("%v %v", info, err)
	}
}

// TestASubAgentElsewhere: a worker on another machine that was let in as the agent does the task of
// the agent's sub-agent, over the gateway's bus, which starts for it (S3-16, S3-23).
func TestASubAgentElsewhere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	w := newWorked(t, "--bus", l.Addr().String())
	dials := func() bool {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	if dials() {
		t.Error("the bus listens before anybody is in")
	}
	box := &person{t: t, program: w.program, env: append(w.env[:len(w.env):len(w.env)], "HANDRAIL_DATA="+filepath.Join(privateDir(t), "data"))}
	code := strings.TrimSpace(w.does("worker", "add", "box", "--principal", "agent", "--yes", "--no-wait"))
	if out, exit := box.tries(code, "worker", "join"); exit != 0 {
		t.Fatalf("joining: %s", out)
	}
	w.does("provider", "add", "sub-agent", "reader", "../../examples/sub-agents/reader.yaml", "--yes")
	runs := exec.Command(box.program, "worker", "--gateway", "joined", "--offline")
	runs.Env = box.env
	said, err := runs.StderrPipe()
	must(t, err)
	must(t, runs.Start())
	t.Cleanup(func() { _ = runs.Process.Signal(os.Interrupt); _ = runs.Wait() })
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "This worker asks over the bus at "+l.Addr().String()+".\n" {
		t.Errorf("it says %q: %v", line, err)
	}
	until(t, "the worker to do the task", func() bool {
		out, exit := w.tries("", "call", "--agent", "tool.sub-agent.reader", "--arg", "task=read a.txt")
		return exit == 0 && strings.Contains(out, "The rent is 700.")
	})
}
