package worker

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/pipeline"
	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
)

// TestAPipelineOfThreeKinds: a file's steps are taken in their order. The harness sees what its
// step names, and calls no tool that it does not name, whatever a result talks it into; the first
// step that fails ends the run (S3-02, S3-03, S3-33, S3-35).
func TestAPipelineOfThreeKinds(t *testing.T) {
	p, err := pipeline.Read([]byte(`
intent: file_task
steps:
  - {id: read, tool: tool.fs.read, with: {path: {from: /task}}}
  - {id: hits, code: lines, with: {of: {from: /steps/read/content}, with: ignore}}
  - {id: say, harness: {task: {join: [about, " ", {from: /task}]}, tools: [tool.fs.list], sees: [read]}}
output: {join: [{from: /steps/hits/count}, " ", {from: /steps/say/text}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	// A harness has one method, which returns what it wants called: the engine calls it, and it
	// calls nothing (S3-04, S3-05).
	if h := reflect.TypeFor[Harness](); h.NumMethod() != 1 || reflect.TypeFor[Turn]().NumMethod() != 0 {
		t.Error("a harness can do more than answer")
	}
	r, err := router.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &listed{tools: []capabilities.ToolID{"tool.fs.read", "tool.fs.list", "tool.fs.bash", "tool.fs.write"}}
	var stages []Stage
	var allowed []capabilities.ToolID
	newEngine := func(h Harness) *Engine {
		stages = nil
		e, err := New(Options{Gateway: g, Router: r, Harness: h, Tell: func(e Event) {
			stages = append(stages, e.Stage)
			if d, ok := e.Body.(Decided); ok {
				allowed = d.Allowed
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	h := &gullible{script: [][]ToolCall{{{"tool.fs.bash", json.RawMessage(`{}`)}, {"tool.fs.read", json.RawMessage(`{"path":"b"}`)}, {"tool.fs.list", json.RawMessage(`{}`)}}}}
	out, err := newEngine(h).Follow(t.Context(), p, "a.txt")
	if err != nil || out.Text != "1 done" || out.Intent != "file_task" {
		t.Fatalf("%+v %v", out, err)
	}
	if !slices.Equal(g.calls, []string{`tool.fs.read{"path":"a.txt"}`, "tool.fs.list{}"}) {
		t.Errorf("called %q", g.calls)
	}
	first := h.turns[0]
	if len(first.Messages) != 2 || first.Messages[0].Text != "about a.txt" || first.Messages[1].Result == nil || len(first.Tools) != 1 {
		t.Errorf("the harness saw %+v", first)
	}
	if slices.Contains(allowed, "tool.fs.write") || !slices.Contains(allowed, "tool.fs.read") {
		t.Errorf("allowed %q", allowed)
	}
	if stages[0] != StageRouter || stages[1] != StagePolicy || stages[len(stages)-1] != StagePipeline {
		t.Errorf("stages %q", stages)
	}

	g.calls, g.fails = nil, capabilities.CodeNotFound
	h = &gullible{}
	if out, err := newEngine(h).Follow(t.Context(), p, "a.txt"); err != nil || !out.Undone || len(h.turns) != 0 || capabilities.CodeOf(out.Last) != capabilities.CodeNotFound {
		t.Errorf("after a call that failed: %+v %v", out, err)
	}
	g.calls, g.fails, g.tools = nil, "", []capabilities.ToolID{"tool.fs.read"}
	if _, err := newEngine(h).Follow(t.Context(), p, "a.txt"); capabilities.CodeOf(err) != capabilities.CodeUnknownTool || len(g.calls) != 0 {
		t.Errorf("a tool that is not offered: %v, called %q", err, g.calls)
	}
}

// TestAStepThatIsKeptBackEndsTheRun: a call that nobody permitted, or a harness whose call was not
// permitted, ends a pipeline, which says which step it was and what was not begun. A file may say
// that its run goes on, and then its result says so (S2-27, S3-02).
func TestAStepThatIsKeptBackEndsTheRun(t *testing.T) {
	r, err := router.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	run := func(steps string, asks ...capabilities.ToolID) (Outcome, *listed) {
		t.Helper()
		p, err := pipeline.Read([]byte("intent: file_task\nsteps:\n" + steps + "\noutput: {join: [done, {from: /steps/end/count}]}"))
		if err != nil {
			t.Fatal(err)
		}
		g := &listed{tools: []capabilities.ToolID{"tool.fs.read", "tool.fs.list"}, asks: asks}
		e, err := New(Options{Gateway: g, Router: r, Harness: &gullible{script: [][]ToolCall{one("tool.fs.read", `{"path":"b"}`)}}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := e.Follow(t.Context(), p, "a.txt")
		if err != nil {
			t.Fatal(err)
		}
		return out, g
	}
	const end = "\n  - {id: end, code: count, with: {of: [1, 2]}}"
	const list = "\n  - {id: list, tool: tool.fs.list}" + end
	for name, steps := range map[string]string{
		"a tool": "  - {id: read, tool: tool.fs.read, with: {path: a}}" + list, "a harness": "  - {id: read, harness: {task: look, tools: [tool.fs.read]}}" + list,
		"stop": "  - {id: read, tool: tool.fs.read, with: {path: a}, kept_back: stop}" + list,
	} {
		out, g := run(steps, "tool.fs.read")
		if len(g.calls) != 0 || !out.Undone || capabilities.CodeOf(out.Last) != capabilities.CodeConsentUnavailable ||
			!strings.Contains(out.Text, "The step read was kept back: permission denied") || !strings.HasSuffix(out.Text, "Not begun: list, end") {
			t.Errorf("%s: called %q, %+v", name, g.calls, out)
		}
	}
	for name, steps := range map[string]string{
		"a tool":    "  - {id: read, tool: tool.fs.read, with: {path: a}, kept_back: go}" + list,
		"a harness": "  - {id: read, harness: {task: look, tools: [tool.fs.read]}, kept_back: go}" + list,
	} {
		out, g := run(steps, "tool.fs.read")
		if !slices.Equal(g.calls, []string{"tool.fs.list{}"}) || out.Undone || out.Last != nil || !strings.HasPrefix(out.Text, "done2\nThe step read was kept back: ") {
			t.Errorf("%s: called %q, %+v", name, g.calls, out)
		}
	}
	if out, g := run("  - {id: read, tool: tool.fs.read, with: {path: a}}" + list); len(g.calls) != 2 || out.Text != "done2" {
		t.Errorf("with leave: called %q, %+v", g.calls, out)
	}
	for _, bad := range []string{"{id: end, code: count, with: {of: []}, kept_back: go}", "{id: end, tool: tool.fs.list, kept_back: maybe}"} {
		if _, err := pipeline.Read([]byte("intent: file_task\nsteps: [" + bad + "]\noutput: x")); err == nil || !strings.Contains(err.Error(), "steps/0/kept_back") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
