package macro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/registry"
)

// embedded are the tools that are compiled in.
func embedded(t testing.TB) Tools {
	t.Helper()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	byID := map[capabilities.ToolID]*catalog.Descriptor{}
	for _, d := range c.All() {
		byID[d.Tool] = d
	}
	return func(id capabilities.ToolID) (*catalog.Descriptor, bool) { d, ok := byID[id]; return d, ok }
}

func read(t testing.TB, text string) *Macro {
	t.Helper()
	raw, err := JSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Read("save", raw)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const savePage = `
description: Opens a page and writes its title into a file.
args:
  url: {type: string, maxLength: 2048}
  file: {type: string, maxLength: 256}
  note: {type: string, maxLength: 200}
optional: [note]
steps:
  - id: page
    tool: tool.browser.navigate
    with: {url: {from: /args/url}}
    expect: {at: /steps/page/output/url, matches: "^https?://"}
  - id: save
    tool: tool.fs.write
    with:
      path: {from: /args/file}
      content: {join: [{from: /steps/page/output/title}, "\n", {from: /args/note, else: "no note"}]}
    undo:
      tool: tool.fs.write
      with: {path: {from: /args/file}, content: ""}
output:
  title: {from: /steps/page/output/title}
`

// The schemas of the tools are held to before anything runs: names, types, and that a
// reference leads to what is there by then.
func TestCheck(t *testing.T) {
	there := embedded(t)
	if err := read(t, savePage).Check(there); err != nil {
		t.Fatal(err)
	}
	for want, steps := range map[string]string{
		"there is no tool tool.fs.wrote":      `[{id: a, tool: tool.fs.wrote}]`,
		"unknown field":                       `[{id: a, tool: tool.fs.read, with: {path: x, pth: y}}]`,
		"has no \"pth\"":                      `[{id: a, tool: tool.fs.read, with: {path: x, pth: {from: /args/url}}}]`,
		"/path: is required":                  `[{id: a, tool: tool.fs.read}]`,
		"/path: must be a string, not numb":   `[{id: a, tool: tool.fs.read, with: {path: 5}}]`,
		"takes string here, and this is numb": `[{id: a, tool: tool.fs.read, with: {path: {from: /args/n}}}]`,
		"takes string here, and this is arra": `[{id: a, tool: tool.fs.read, with: {path: [1]}}, {id: b, tool: tool.fs.read, with: {path: {from: /args/list}}}]`,
		"has no \"titel\"":                    `[{id: a, tool: tool.browser.navigate, with: {url: x}}, {id: b, tool: tool.fs.read, with: {path: {from: /steps/a/output/titel}}}]`,
		"no step before this one has the ID":  `[{id: a, tool: tool.fs.read, with: {path: {from: /steps/b/output/text}}}, {id: b, tool: tool.fs.read, with: {path: x}}]`,
		"in a step with each only":            `[{id: a, tool: tool.fs.read, with: {path: {from: /item}}}]`,
		"is a list, and this is string":       `[{id: a, tool: tool.fs.read, with: {path: {from: /item}}, each: {from: /args/url}, most: 3}]`,
		"takes no node":                       `[{id: a, tool: tool.node.list, node: n1}]`,
		"leads back to itself":                `[{id: a, tool: tool.macro.save}]`,
	} {
		text := "description: d\nargs: {url: {type: string}, n: {type: number}, list: {type: array, items: {type: string}}}\nsteps: " + steps
		tools := there
		if strings.Contains(steps, "macro") {
			tools = func(id capabilities.ToolID) (*catalog.Descriptor, bool) {
				if id == "tool.macro.save" {
					return &catalog.Descriptor{Tool: id, ModelFacing: true, Input: json.RawMessage(`{"type":"object"}`), Result: json.RawMessage(`{"type":"object"}`), Steps: []string{"tool.fs.read"}, Routing: catalog.Routing{Target: catalog.TargetGateway}}, true
				}
				return there(id)
			}
		}
		if err := read(t, text).Check(tools); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", steps, err, want)
		}
	}
}

// A file that is no macro is refused, and the field is named.
func TestRead(t *testing.T) {
	for want, text := range map[string]string{
		"description:":          "steps: [{id: a, tool: tool.fs.read}]",
		"steps: a list":         "description: d",
		"unknown field":         "description: d\nrun: x\nsteps: [{id: a, tool: tool.fs.read}]",
		"steps/0/id":            "description: d\nsteps: [{id: A, tool: tool.fs.read}]",
		"is there twice":        "description: d\nsteps: [{id: a, tool: tool.fs.read}, {id: a, tool: tool.fs.read}]",
		"steps/0/tool":          "description: d\nsteps: [{id: a, tool: {from: /args/x}}]",
		"steps/0/node":          "description: d\nsteps: [{id: a, tool: tool.fs.read}, {id: b, tool: tool.fs.read, node: {from: /steps/a/output/text}}]",
		"steps/0/most":          "description: d\nsteps: [{id: a, tool: tool.fs.read, each: {from: /args/x}}]",
		"steps/0/if/0: \"at\"":  "description: d\nsteps: [{id: a, tool: tool.fs.read, if: {at: /args/x}}]",
		"begins with /args":     "description: d\nsteps: [{id: a, tool: tool.fs.read, with: {path: {from: /secrets/x}}}]",
		"a JSON Pointer":        "description: d\nsteps: [{id: a, tool: tool.fs.read, with: {path: {from: \"${{ steps.a }}\"}}}]",
		"optional: there is no": "description: d\noptional: [x]\nsteps: [{id: a, tool: tool.fs.read}]",
		"timeout_ms":            "description: d\ntimeout_ms: 9999999\nsteps: [{id: a, tool: tool.fs.read}]",
		"a list of 1 to 50":     "description: d\nsteps: [" + strings.Repeat("{id: a, tool: tool.fs.read},", 51) + "]",
		"a regular expression":  "description: d\nsteps: [{id: a, tool: tool.fs.read, if: {at: /args/x, matches: \"(\"}}]",
		"nested deeper":         "description: d\nsteps: [{id: a, tool: tool.fs.read, with: {path: " + strings.Repeat("[", 18) + strings.Repeat("]", 18) + "}}]",
	} {
		raw, err := JSON([]byte(text))
		if err == nil {
			_, err = Read("save", raw)
		}
		if capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || !strings.Contains(err.Error(), strings.TrimPrefix(want, "steps/0/node")) {
			t.Errorf("%.80s\n got %v\nwant %s", text, err, want)
		}
	}
}

// A macro declares the union of what its steps and their undoing do.
func TestOfferIsTheUnion(t *testing.T) {
	raw, err := JSON([]byte(savePage))
	if err != nil {
		t.Fatal(err)
	}
	p := tools.Provider{Name: "save", Kind: tools.KindMacro, Manifest: raw}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	_, manifest, err := Offer(&p, embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	list, refused := tools.Describe(&p, &manifest)
	if len(list) != 1 {
		t.Fatalf("%+v", refused)
	}
	d := list[0]
	for _, id := range []capabilities.ToolID{"tool.browser.navigate", "tool.fs.write"} {
		one, _ := embedded(t)(id)
		for _, key := range one.Manifest.Keys() {
			if !slices.Contains(d.Descriptor.Manifest.Keys(), key) {
				t.Errorf("the macro does not declare %s of %s", key, id)
			}
		}
	}
	if d.Tool != "tool.macro.save" || d.Layer != catalog.LayerMacro || !d.Composes() || d.Annotations.ReadOnly || len(d.Plan) != 3 || d.Defaults.Isolation != capabilities.ClassT2 {
		t.Errorf("%+v %+v", d.Descriptor, d.Plan)
	}
	// Every word of the file counts for the approval.
	p.Manifest = json.RawMessage(strings.Replace(string(raw), "no note", "no notes", 1))
	if _, other, err := Offer(&p, embedded(t)); err != nil || other.Hash() == manifest.Hash() {
		t.Errorf("another text has the same hash: %v", err)
	}
}

// calls is a pipeline that answers as a test says.
type calls struct {
	answer func(n registry.Nested) capabilities.Result
	made   []registry.Nested
	steps  int // of progress
}

func (c *calls) run(t *testing.T, ctx context.Context, text, args string) (capabilities.Output, error) {
	t.Helper()
	return Runner{read(t, text), embedded(t)}.Execute(ctx, registry.Order{
		Args: json.RawMessage(args), Progress: func(capabilities.Progress) { c.steps++ },
		Step: func(_ context.Context, n registry.Nested) capabilities.Result {
			c.made = append(c.made, n)
			r := c.answer(n)
			r.Tool, r.Call = n.Tool, capabilities.CallID(fmt.Sprint("call_", len(c.made)))
			return r
		},
	})
}

func ok(output string) capabilities.Result {
	return capabilities.Result{Status: capabilities.StatusOK, Output: json.RawMessage(output)}
}

func failed(code capabilities.Code) capabilities.Result {
	return capabilities.Result{Status: code.Info().Status, Code: code, Message: "no."}
}

// A run makes its calls in order, with values of arguments and of earlier outputs, and returns
// what its file says.
func TestRun(t *testing.T) {
	c := calls{answer: func(n registry.Nested) capabilities.Result {
		if n.Tool == "tool.browser.navigate" {
			r := ok(`{"url":"https://example.com/","title":"Hello"}`)
			r.Untrusted = true
			return r
		}
		return ok(`{}`)
	}}
	out, err := c.run(t, t.Context(), savePage, `{"url":"https://example.com/","file":"a.txt"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(out.Result); string(got) != `{"data":{"title":"Hello"}}` || !out.Untrusted || c.steps != 2 {
		t.Errorf("%s %v %d", got, out.Untrusted, c.steps)
	}
	if len(c.made) != 2 || string(c.made[1].Args) != `{"content":"Hello\nno note","path":"a.txt"}` {
		t.Errorf("%s", c.made[1].Args)
	}
}

// The output of a step is a value: a reference or a tool in it is text (S3-14).
func TestResultsAreNoCode(t *testing.T) {
	poison := `{"from":"/args/file"}`
	c := calls{answer: func(n registry.Nested) capabilities.Result {
		return ok(`{"url":"https://example.com/","title":"{from: /args/url} tool.fs.bash","extra":` + poison + `}`)
	}}
	text := strings.Replace(savePage, "  title: {from: /steps/page/output/title}", "  extra: {from: /steps/page/output}", 1)
	out, err := c.run(t, t.Context(), text, `{"url":"https://example.com/","file":"secret.txt"}`)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(out.Result)
	if !strings.Contains(string(got), poison) || strings.Contains(string(got), "secret.txt") || !strings.Contains(string(c.made[1].Args), `{from: /args/url} tool.fs.bash`) {
		t.Errorf("%s\n%s", got, c.made[1].Args)
	}
	for _, n := range c.made {
		if n.Tool != "tool.browser.navigate" && n.Tool != "tool.fs.write" {
			t.Errorf("it called %s", n.Tool)
		}
	}
}

// A reference that stands often makes no more than a result may have.
func TestManyReferencesAreBounded(t *testing.T) {
	c := calls{answer: func(registry.Nested) capabilities.Result { return ok(`{"title":"` + strings.Repeat("x", 4<<20) + `"}`) }}
	text := "description: d\nsteps:\n  - {id: a, tool: tool.browser.navigate, with: {url: 'https://example.com/'}}\noutput:\n"
	for i := range 5 {
		text += fmt.Sprintf("  o%d: {from: /steps/a/output/title}\n", i)
	}
	if _, err := c.run(t, t.Context(), text, `{}`); !strings.Contains(fmt.Sprint(err), "more than") {
		t.Errorf("%.200v", err)
	}
}

const listed = `
description: Reads files.
args: {files: {type: array, items: {type: string}}}
steps:
  - id: all
    tool: tool.fs.write
    each: {from: /args/files}
    most: 3
    if: {at: /item, not_equals: skip}
    with: {path: {from: /item}, content: {join: [{from: /index}]}}
    undo: {tool: tool.fs.write, with: {path: {from: /item}, content: gone}}
  - id: last
    tool: tool.fs.read
    if: {at: /steps/all/output/items/0/n, equals: 1}
    with: {path: x}
output: {all: {from: /steps/all/output/items}, last: {from: /steps/last/status}}
`

// A list is gone over up to its bound; more is a failure and not a part (a macro that loops ends).
func TestEach(t *testing.T) {
	c := calls{answer: func(registry.Nested) capabilities.Result { return ok(`{"n":1}`) }}
	out, err := c.run(t, t.Context(), listed, `{"files":["a","skip","c"]}`)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(out.Result)
	if string(got) != `{"data":{"all":[{"n":1},null,{"n":1}],"last":"ok"}}` || string(c.made[1].Args) != `{"content":"2","path":"c"}` {
		t.Errorf("%s %s", got, c.made[1].Args)
	}
	c = calls{answer: c.answer}
	if _, err := c.run(t, t.Context(), listed, `{"files":["a","b","c","d"]}`); capabilities.CodeOf(err) != capabilities.CodeInvalidArguments || len(c.made) != 0 {
		t.Errorf("%v, %d calls", err, len(c.made))
	}
}

// A run is undone in reverse order when a later call fails, with the values of its turn,
// and the result says so. The code then invites to no repetition.
func TestUndo(t *testing.T) {
	c := calls{}
	c.answer = func(n registry.Nested) capabilities.Result {
		if len(c.made) == 3 {
			return failed(capabilities.CodeNodeDisconnected)
		}
		return ok(`{}`)
	}
	_, err := c.run(t, t.Context(), listed, `{"files":["a","b","c"]}`)
	var e *capabilities.Error
	if !errors.As(err, &e) || e.Code != capabilities.CodeExecutionFailed || e.Retryable() {
		t.Fatalf("%v", err)
	}
	f, _ := e.Details.(Failed)
	if len(c.made) != 5 || string(c.made[3].Args) != `{"content":"gone","path":"b"}` || string(c.made[4].Args) != `{"content":"gone","path":"a"}` || !c.made[3].Undo {
		t.Errorf("%+v", c.made)
	}
	if f.Step != "all" || f.Code != capabilities.CodeNodeDisconnected || len(f.Steps) != 3 || len(f.Undone) != 2 || len(f.NotUndone) != 0 {
		t.Errorf("%+v", f)
	}

	// An undoing that fails is told, and the others are made all the same.
	c = calls{}
	c.answer = func(n registry.Nested) capabilities.Result {
		if n := len(c.made); n == 3 || n == 4 {
			return failed(capabilities.CodeExecutionFailed)
		}
		return ok(`{}`)
	}
	_, err = c.run(t, t.Context(), listed, `{"files":["a","b","c"]}`)
	errors.As(err, &e)
	if f, _ := e.Details.(Failed); len(f.Undone) != 2 || len(f.NotUndone) != 1 || !strings.Contains(e.Message, "Not undone: all") {
		t.Errorf("%+v %v", f, e.Message)
	}
}

// A cancelled run makes no further call but those that undo; a stopped one not even those.
func TestCancelled(t *testing.T) {
	for _, cause := range []*capabilities.Error{{Code: capabilities.CodeCancelled}, {Code: capabilities.CodeStopped}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := calls{}
		c.answer = func(n registry.Nested) capabilities.Result {
			if len(c.made) == 1 {
				cancel(cause)
			}
			return ok(`{}`)
		}
		_, err := c.run(t, ctx, listed, `{"files":["a","b","c"]}`)
		var e *capabilities.Error
		if !errors.As(err, &e) || e.Code != cause.Code {
			t.Fatalf("%v", err)
		}
		f, _ := e.Details.(Failed)
		undone := cause.Code == capabilities.CodeCancelled
		if undone != (len(c.made) == 2) || undone == (len(f.NotUndone) == 1) {
			t.Errorf("%s: %+v, %d calls", cause.Code, f, len(c.made))
		}
	}
}

// A macro's effect is what its steps' effects add up to, never more than the worst of them, and the
// evidence names the steps; a run that failed after it changed something is partial.
func TestEffect(t *testing.T) {
	const text = "description: d\nargs: {go: {type: string}}\nsteps:\n" +
		"  - {id: first, tool: tool.fs.write, if: {at: /args/go, not_equals: nothing}, with: {path: a, content: b}, undo: {tool: tool.fs.write, with: {path: a, content: c}}}\n" +
		"  - {id: second, tool: tool.fs.read, if: {at: /args/go, not_equals: nothing}, with: {path: a}}\n"
	const (
		confirmed = capabilities.EffectConfirmed
		unseen    = capabilities.EffectUnverifiable
		partial   = capabilities.EffectPartial
		noop      = capabilities.EffectSuspectNoop
	)
	for _, c := range []struct {
		effects  [2]capabilities.Effect
		args     string
		want     capabilities.Effect
		evidence string
	}{
		{[2]capabilities.Effect{confirmed, confirmed}, `{}`, confirmed, "that of each step: first, second"},
		{[2]capabilities.Effect{confirmed, ""}, `{}`, confirmed, "that of each step: first"},
		{[2]capabilities.Effect{"", ""}, `{}`, "", ""},
		{[2]capabilities.Effect{confirmed, unseen}, `{}`, unseen, "confirmed: first; not verified: second"},
		{[2]capabilities.Effect{unseen, noop}, `{}`, partial, "not verified: first; doubtful: second"},
		{[2]capabilities.Effect{partial, confirmed}, `{}`, partial, "confirmed: second; doubtful: first"},
		{args: `{"go":"nothing"}`, want: noop, evidence: "every step was skipped"},
	} {
		run := calls{}
		run.answer = func(registry.Nested) capabilities.Result {
			r := ok(`{}`)
			r.Effect = c.effects[len(run.made)-1]
			return r
		}
		out, err := run.run(t, t.Context(), text, c.args)
		if err != nil || out.Effect != c.want || out.Evidence != c.evidence {
			t.Errorf("%v: %q %q %v, want %q %q", c.effects, out.Effect, out.Evidence, err, c.want, c.evidence)
		}
	}
	run := calls{}
	run.answer = func(registry.Nested) capabilities.Result {
		if len(run.made) == 2 {
			return failed(capabilities.CodeExecutionFailed)
		}
		return ok(`{}`)
	}
	out, err := run.run(t, t.Context(), text, `{}`)
	if err == nil || out.Effect != partial || out.Evidence != "carried out: first; failed: second; undone: first" {
		t.Errorf("%q %q %v", out.Effect, out.Evidence, err)
	}
	run = calls{answer: func(registry.Nested) capabilities.Result { return failed(capabilities.CodeExecutionFailed) }}
	if out, err := run.run(t, t.Context(), text, `{}`); err == nil || out.Effect != "" {
		t.Errorf("%q %q %v: nothing was changed", out.Effect, out.Evidence, err)
	}
}

// Before anything was changed a step's error is the macro's, with what the call waits for.
func TestFirstFailureIsItself(t *testing.T) {
	waits := capabilities.Pending{Approval: "ask_1"}
	c := calls{answer: func(registry.Nested) capabilities.Result {
		r := failed(capabilities.CodeApprovalPending)
		r.Details = waits
		return r
	}}
	_, err := c.run(t, t.Context(), savePage, `{"url":"https://example.com/","file":"a"}`)
	var e *capabilities.Error
	if !errors.As(err, &e) || e.Code != capabilities.CodeApprovalPending || e.Pending() != waits {
		t.Errorf("%v %+v", err, e)
	}
	c = calls{answer: func(registry.Nested) capabilities.Result { return ok(`{"url":"file:///x","title":"t"}`) }}
	if _, err := c.run(t, t.Context(), savePage, `{"url":"x","file":"a"}`); capabilities.CodeOf(err) != capabilities.CodeExecutionFailed || !strings.Contains(err.Error(), "it was expected") || len(c.made) != 1 {
		t.Errorf("%v %d", err, len(c.made))
	}
}

// Any file is read or refused, and a macro that was read plans and runs without
// a panic, in bounded calls.
func FuzzRead(f *testing.F) {
	f.Add([]byte(savePage))
	f.Add([]byte(listed))
	f.Add([]byte("description: d\nsteps: [{id: a, tool: tool.fs.read, with: {value: {from: /item}}}]"))
	f.Add([]byte("description: &a d\nsteps: *a"))
	there := embedded(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		raw, err := JSON(text)
		if err != nil {
			return
		}
		m, err := Read("save", raw)
		if err != nil {
			if m != nil {
				t.Fatal("a macro with an error")
			}
			return
		}
		_ = m.Check(there)
		m.Plan(json.RawMessage(`{}`))
		n := 0
		_, _ = Runner{m, there}.Execute(t.Context(), registry.Order{
			Args: json.RawMessage(`{"a":[1,"x",{"b":[]}]}`), Progress: func(capabilities.Progress) {},
			Step: func(context.Context, registry.Nested) capabilities.Result { n++; return ok(`{"a":[1,2,3],"url":"x"}`) },
		})
		if n > MaxCalls+MaxCalls {
			t.Fatalf("%d calls", n)
		}
	})
}

// The examples are macros of tools that are compiled in.
func TestExamples(t *testing.T) {
	names, err := filepath.Glob("../../examples/macros/*.yaml")
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := read(t, string(text)).Check(embedded(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
