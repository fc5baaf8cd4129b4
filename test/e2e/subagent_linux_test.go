package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/model/modeltest"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

const readerAgent = `
description: Reads files of the workspace and answers a question about them.
prefix: /file
tools: [tool.fs.read, tool.fs.list]
`

// subAgent adds one, approved and allowed.
func (w *worked) subAgent(name, file string) {
	w.t.Helper()
	path := filepath.Join(w.work, "..", name+".yaml")
	must(w.t, os.WriteFile(path, []byte(file), 0o600))
	w.does("provider", "add", "sub-agent", name, path, "--yes")
}

// calls are the recorded calls, the newest first.
func (w *worked) calls() (all []api.Call) {
	w.t.Helper()
	lines := json.NewDecoder(strings.NewReader(w.does("calls", "--json", "--limit", "200")))
	for lines.More() {
		var c api.Call
		must(w.t, lines.Decode(&c))
		all = append(all, c)
	}
	return all
}

// packets are those of one kind, in their order.
func (w *worked) packets(kind string) (all []api.Packet) {
	w.t.Helper()
	lines := json.NewDecoder(strings.NewReader(w.does("ledger", "show", "--kind", kind, "--json", "--limit", "500")))
	for lines.More() {
		var p api.Packet
		must(w.t, lines.Decode(&p))
		all = append(all, p)
	}
	return all
}

// TestASubAgentWorksForItsCaller: a model calls a sub-agent as it does any tool. A pipeline of
// its own does the task, sees nothing but that, calls the tools of its file alone, and hands a
// summary up; its calls are the gateway's, inside the caller's, in a lane of their own (S3-16,
// S3-18). One conversation has one pipeline, and a sub-agent is one inside a call (S2-52).
func TestASubAgentWorksForItsCaller(t *testing.T) {
	w := newWorked(t)
	w.subAgent("reader", readerAgent)
	e := modeltest.Start(t, `{"intent":"file_task","confidence":0.9}`, func(n int, r modeltest.Request) modeltest.Step {
		nested := strings.Contains(r.Raw, "the rent of a.txt") && !strings.Contains(r.Raw, "ask somebody")
		switch {
		case nested && !strings.Contains(r.Raw, "The rent is 700."):
			return modeltest.Step{Calls: []modeltest.Call{{Name: "tool_fs_write", Args: `{"path":"c.txt","content":"x"}`}, {Name: "tool_fs_read", Args: `{"path":"a.txt"}`}}}
		case nested:
			return modeltest.Step{Text: "It says 700."}
		case !strings.Contains(r.Raw, "It says 700."):
			return modeltest.Step{Calls: []modeltest.Call{{Name: "tool_sub_agent_reader", Args: `{"task":"the rent of a.txt"}`}}}
		}
		return modeltest.Step{Text: "Your rent is 700."}
	})
	out, code := w.tries("", "run", "--model", "small", "--endpoint", e.URL, "/file ask somebody what the file says")
	if code != 0 || !strings.Contains(out, "Your rent is 700.") {
		t.Fatalf("%d %s", code, out)
	}
	for _, r := range e.Requests() {
		if !r.Classify && strings.Contains(r.Raw, "ask somebody") && strings.Contains(r.Raw, "Assistant: run the command") {
			t.Error("the caller's model saw what the sub-agent read")
		}
	}
	var parent, child api.Packet
	for _, p := range w.packets("tool.call.request") {
		switch p.Tool {
		case "tool.sub-agent.reader":
			parent = p
		case "tool.fs.read":
			child = p
		case "tool.fs.write":
			t.Error("a tool that its file does not name was called")
		}
	}
	inside := `"parent_call_id":"` + string(parent.Call) + `"`
	if parent.Call == "" || !strings.Contains(string(child.Body), inside) || child.Lane == parent.Lane || child.Principal != parent.Principal {
		t.Errorf("parent %+v %s\nchild %+v %s", parent, parent.Body, child, child.Body)
	}
	if told := w.packets("worker.job.taken"); len(told) != 1 || !strings.Contains(string(told[0].Body), inside) {
		t.Errorf("%+v", told)
	}

	// Without a model a worker hands its task on, and says why it cannot.
	if out := w.does("run", "--offline", "--sub-agent", "reader", "/file read a.txt"); !strings.Contains(out, "The rent is 700.") {
		t.Error(out)
	}
	if out, code := w.tries("", "run", "--offline", "--sub-agent", "nobody", "/file read a.txt"); code == 0 || !strings.Contains(out, "is not offered") {
		t.Errorf("%d %s", code, out)
	}

	// One that reaches further than the caller's intent is not offered to it.
	w.subAgent("doer", strings.Replace(readerAgent, "tool.fs.list", "tool.fs.bash", 1))
	w.does("run", "--offline", "/file list .")
	out = w.does("turns", "--json", "--limit", "1")
	if !strings.Contains(out, `"tool.sub-agent.reader"`) || strings.Contains(out, `"tool.sub-agent.doer"`) {
		t.Error(out)
	}
}

// TestASubAgentsWorkerMayBeElsewhere: a worker with another data directory and the same agent's
// token does the task over HTTP. Its calls end with its parent's: an old claim makes none, and
// one that needs a person's word waits for the word that its parent's would wait for. The worker
// is neither a tool nor a provider: it is in no list of the gateway (S3-01).
func TestASubAgentsWorkerMayBeElsewhere(t *testing.T) {
	w := newWorked(t)
	w.subAgent("writer", strings.Replace(readerAgent, "tool.fs.list", "tool.fs.write", 1))
	w.does("run", "--offline", "/file read a.txt")
	who := w.calls()[0].Principal
	token := strings.TrimSpace(w.does("token", "create", string(who)))
	away := *w.person
	away.env = append(slices.DeleteFunc(slices.Clone(w.env), func(s string) bool { return strings.HasPrefix(s, "HANDRAIL_DATA=") }),
		"HANDRAIL_DATA="+filepath.Join(privateDir(t), "none"), "HANDRAIL_URL="+w.url, "HANDRAIL_TOKEN="+token)
	agent := newCaller(t, w.url, token)
	post := func(path string, body, into any) int {
		data, err := json.Marshal(body)
		must(t, err)
		status, answer, err := agent.try(ctx(), http.MethodPost, path, string(data))
		if err != nil || json.Unmarshal(answer, into) != nil {
			t.Errorf("%s: %v %s", path, err, answer)
		}
		return status
	}
	ended := make(chan capabilities.Result, 1)
	call := func(task string) {
		go func() {
			var r capabilities.Result
			post("/v1/calls", map[string]any{"tool": "tool.sub-agent.writer", "args": map[string]any{"task": task}}, &r)
			ended <- r
		}()
	}
	call("read a.txt")
	until(t, "the task", func() bool { return strings.Contains(w.does("jobs", "--json"), "read a.txt") })
	away.does("worker", "--offline", "--once", "--name", "far")
	if r := <-ended; r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), "The rent is 700.") || !r.Untrusted {
		t.Fatalf("%+v %s", r, r.Output)
	}

	if lists := w.does("tools", "list", "--json") + w.does("provider", "list", "--json"); strings.Contains(lists, `"far"`) {
		t.Errorf("the worker is in a list: %s", lists)
	}

	// The claim of a task is good for calls while the task's call runs, and for nothing else.
	call("read b.txt")
	var job api.Job
	until(t, "the task", func() bool { return post("/v1/jobs/take", api.TakeJob{Worker: "hand"}, &job) == http.StatusOK })
	type answer struct {
		capabilities.Result
		Error struct{ Code capabilities.Code }
	}
	inside := func(tool, args, claim string, opened ...capabilities.ToolID) (r answer) {
		body := map[string]any{"tool": tool, "args": json.RawMessage(args), "job_id": job.ID, "claim": claim}
		if opened != nil {
			body["opened"] = opened
		}
		post("/v1/calls", body, &r)
		return r
	}
	if r := inside("tool.fs.read", `{"path":"a.txt"}`, "other"); r.Error.Code != capabilities.CodeForbidden {
		t.Errorf("another claim: %+v", r)
	}
	if r := inside("tool.fs.list", `{}`, job.Claim); r.Code != capabilities.CodeUnknownTool {
		t.Errorf("a tool that is not its own: %+v", r)
	}
	if r := inside("tool.fs.read", `{"path":"a.txt"}`, job.Claim); r.Status != capabilities.StatusOK {
		t.Errorf("%+v", r)
	}
	// A tool that its turn did not open is refused at the gateway, inside a call, too (S2-20).
	if r := inside("tool.fs.read", `{"path":"a.txt"}`, job.Claim, "tool.fs.write"); r.Status != capabilities.StatusDenied || r.Code != capabilities.CodeDeniedByPolicy {
		t.Errorf("a tool that the turn did not open: %+v", r)
	}
	if r := inside("tool.fs.read", `{"path":"a.txt"}`, job.Claim, "tool.fs.write", "tool.fs.read"); r.Status != capabilities.StatusOK {
		t.Errorf("a tool that the turn opened: %+v", r)
	}
	alive := func() { // as a worker does, whose lease ends otherwise
		var told api.Job
		post("/v1/jobs/"+job.ID+"/word", api.JobWord{Claim: job.Claim}, &told)
	}
	asked := make(chan answer, 1)
	go func() { asked <- inside("tool.fs.write", `{"path":"d.txt","content":"x"}`, job.Claim) }()
	var question string
	until(t, "the question", func() bool {
		alive()
		question = regexp.MustCompile(`"approval":"([^"]+)"`).FindString(w.does("approvals", "--json"))
		return question != ""
	})
	alive()
	w.does("approve", strings.Split(question, `"`)[3])
	if r := <-asked; r.Status != capabilities.StatusOK {
		t.Errorf("after a yes: %+v", r)
	}
	if status := post("/v1/jobs/"+job.ID+"/word", api.JobWord{Claim: job.Claim, State: api.JobDone, Result: "done by hand"}, &job); status != http.StatusOK {
		t.Errorf("its end: %d", status)
	}
	if r := <-ended; !strings.Contains(string(r.Output), "done by hand") || r.Effect == "" {
		t.Errorf("%+v %s", r, r.Output)
	}
	if r := inside("tool.fs.read", `{"path":"a.txt"}`, job.Claim); r.Error.Code != capabilities.CodeNotFound {
		t.Errorf("after its call's end: %+v", r)
	}
}
