package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/model/modeltest"
)

// TestAPipelineFromAFile: the built program takes the steps of a file. One of tools and code needs
// no model; in one with a step of the harness the model sees the results that the step names, as
// data, and calls nothing that the step does not name. A file with a fault runs nothing (S3-03).
func TestAPipelineFromAFile(t *testing.T) {
	w := newWorked(t)
	write := func(text string) string {
		path := filepath.Join(w.work, "..", "steps.yaml")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	if out := w.does("run", "--pipeline", "../../examples/pipelines/find-lines.yaml", "a.txt"); !strings.Contains(out, "1 lines:\nThe rent is 700.") {
		t.Error(out)
	}
	if told := w.does("turns", "--json", "--limit", "1"); !strings.Contains(told, `"by":"file"`) || strings.Contains(told, `"tool.fs.write"`) {
		t.Error(told)
	}
	if out, code := w.tries("", "run", "--pipeline", "../../examples/pipelines/find-lines.yaml", "none.txt"); code == 0 || !strings.Contains(out, "The step read failed") {
		t.Errorf("%d %s", code, out)
	}
	out, code := w.tries("", "run", "--json", "--pipeline", write("intent: file_task\nsteps: [{id: a, tool: tool.fs.bash}]\noutput: x"), "a.txt")
	if code == 0 || !strings.Contains(out, "steps/0/tool: the intent file_task does not use tool.fs.bash") || !strings.Contains(out, "invalid_request") {
		t.Errorf("%d %s", code, out)
	}

	// Without a model the harness's step says what it cannot do, and so does a worker, which goes on.
	if out, code := w.tries("", "run", "--offline", "--pipeline", "../../examples/pipelines/explain.yaml", "a.txt"); code != 1 || !strings.Contains(out, "The step explain failed") {
		t.Errorf("%d %s", code, out)
	}
	fails := strings.Fields(w.does("jobs", "add", "--pipeline", "../../examples/pipelines/explain.yaml", "a.txt"))[0]
	next := strings.Fields(w.does("jobs", "add", "/file read a.txt"))[0]
	if out := w.does("worker", "--offline", "--once"); !strings.Contains(out, fails+" failed") || !strings.Contains(out, next+" done") {
		t.Error(out)
	}

	e := modeltest.Start(t, `{}`, func(n int, r modeltest.Request) modeltest.Step {
		if n == 0 {
			return modeltest.Step{Calls: []modeltest.Call{{Name: "tool_fs_bash", Args: `{"command":"id"}`}, {Name: "tool_fs_read", Args: `{"path":"b.txt"}`}}}
		}
		return modeltest.Step{Text: "It is about rent."}
	})
	out, code = w.tries("", "run", "--model", "small", "--endpoint", e.URL, "--pipeline", "../../examples/pipelines/explain.yaml", "a.txt")
	if code != 0 || !strings.Contains(out, "It is about rent.") {
		t.Errorf("%d %s", code, out)
	}
	asked := e.Requests()
	if len(asked) != 2 || !strings.Contains(asked[0].Raw, "The rent is 700.") || strings.Contains(asked[0].Raw, `"tools":`) {
		t.Errorf("the model was asked %+v", asked)
	}
	if calls := w.does("calls", "--json"); strings.Contains(calls, "tool.fs.bash") || strings.Contains(calls, "b.txt") {
		t.Errorf("the gateway saw %s", calls)
	}
}
