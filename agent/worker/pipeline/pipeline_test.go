package pipeline_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/pipeline"
	"github.com/handrail-dev/handrail/capabilities"
)

const ends = "output: x"

// A file is refused by its exact place, before anything runs: kinds beside the three, tools that
// the gate does not open for its intent, references to what is not there by then (S3-35, S2-18).
func TestRefusedFiles(t *testing.T) {
	for _, c := range []struct{ file, why string }{
		{"a: &x 1\nb: *x", "no YAML"},
		{"intent: fly\nsteps: [{id: a, code: count}]\n" + ends, `intent: there is no intent "fly"`},
		{"intent: file_task\nsteps: []\n" + ends, "steps: a list of 1 to 32"},
		{"intent: file_task\nsteps: [{id: a, code: count}]", "output: what the turn ends with"},
		{"intent: file_task\nstep: []\n" + ends, `pipeline: unknown field "step"`},
		{"intent: file_task\nsteps: [{id: A, code: count}]\n" + ends, "steps/0/id: must match"},
		{"intent: file_task\nsteps: [{id: a, code: count}, {id: a, code: count}]\n" + ends, "steps/1/id: a is there twice"},
		{"intent: file_task\nsteps: [{id: a}]\n" + ends, "steps/0: a step has exactly one of tool, harness and code"},
		{"intent: file_task\nsteps: [{id: a, code: count, tool: tool.fs.read}]\n" + ends, "steps/0: a step has exactly one of"},
		{"intent: file_task\nsteps: [{id: a, shell: id}]\n" + ends, `steps/0: unknown field "shell"`},
		{"intent: file_task\nsteps: [{id: a, code: exec}]\n" + ends, `steps/0/code: there is no code "exec"; known: count, first, lines, require`},
		{"intent: file_task\nsteps: [{id: a, tool: tool.fs.bash}]\n" + ends, "steps/0/tool: the intent file_task does not use tool.fs.bash"},
		{"intent: chat_only\nsteps: [{id: a, harness: {task: x, tools: [tool.fs.read]}}]\n" + ends, "steps/0/harness/tools/0: the intent chat_only does not use tool.fs.read"},
		{"intent: file_task\nsteps: [{id: a, harness: {}}]\n" + ends, "steps/0/harness/task"},
		{"intent: file_task\nsteps: [{id: a, harness: {task: x}, with: {}}]\n" + ends, "steps/0/with: belongs to a tool or to code"},
		{"intent: file_task\nsteps: [{id: a, harness: {task: x, sees: [b]}}]\n" + ends, "steps/0/harness/sees/0: an earlier step that calls a tool"},
		{"intent: file_task\nsteps: [{id: a, code: count, with: {of: {from: /steps/b/x}}}, {id: b, code: count}]\n" + ends, "steps/0/with/of/from: /task, or an earlier step's result"},
		{"intent: file_task\nsteps: [{id: a, code: count, with: []}]\n" + ends, "steps/0/with: an object"},
	} {
		_, err := pipeline.Read([]byte(c.file))
		if capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %s", c.file, err, c.why)
		}
	}
}

func TestValuesAndCode(t *testing.T) {
	p, err := pipeline.Read([]byte(`
intent: file_task
steps:
  - {id: read, tool: tool.fs.read, with: {path: {from: /task}}}
  - {id: rent, code: lines, with: {of: {from: /steps/read/content}, with: RENT}}
  - {id: some, code: first, with: {of: {from: /steps/rent/items}, most: 1}}
  - {id: all, code: require, with: {of: {from: /steps/some/items}, else: no rent}}
output: {join: ["found ", {from: /steps/rent/count}, ": ", {from: /steps/some/items/0}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	w := &pipeline.World{Task: "a.txt", Steps: map[string]any{}}
	if args, err := p.Steps[0].With.Eval(w); err != nil || args.(map[string]any)["path"] != "a.txt" {
		t.Fatalf("%v %v", args, err)
	}
	run := func(content string) (any, error) {
		data, _ := json.Marshal(map[string]any{"content": content})
		if err := w.Note("read", data); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Steps[1:] {
			args, err := s.With.Eval(w)
			if err != nil {
				return nil, err
			}
			out, err := pipeline.Compute(s.Code, args)
			if err != nil {
				return nil, err
			}
			data, _ := json.Marshal(out)
			if err := w.Note(s.ID, data); err != nil {
				t.Fatal(err)
			}
		}
		return p.Output.Eval(w)
	}
	if text, err := run("the rent is 700\nfood\nRent of {from: /task}\n"); err != nil || text != "found 2: the rent is 700" {
		t.Errorf("%v %v", text, err)
	}
	if text, err := run("food"); capabilities.CodeOf(err) != capabilities.CodeExecutionFailed || !strings.Contains(err.Error(), "no rent") {
		t.Errorf("%v %v", text, err)
	}
	if _, err := pipeline.Compute("first", map[string]any{"of": "x", "most": 0.5}); capabilities.CodeOf(err) != capabilities.CodeInvalidArguments {
		t.Error(err)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/pipelines/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pipeline.Read(text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("intent: file_task\nsteps: [{id: a, tool: tool.fs.read, with: {path: {from: /task}}}]\noutput: {from: /steps/a/content}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := pipeline.Read(text)
		if (p == nil) == (err == nil) {
			t.Errorf("%v, %v", p, err)
		}
		if p == nil {
			return
		}
		if _, err := p.Output.Eval(&pipeline.World{Steps: map[string]any{}}); err != nil && capabilities.CodeOf(err) == "" {
			t.Error(err)
		}
	})
}
