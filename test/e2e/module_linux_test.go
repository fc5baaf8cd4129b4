package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/site"
)

const moduleTools = `{"tools":[
 {"name":"upper","description":"Writes a text in capitals.","argv":["words","upper"],"stdin":"text","params":{"text":{"type":"string"}},"required":["text"]},
 {"name":"count","description":"Counts words.","argv":["words","json","--","{text}"],"output":"json","params":{"text":{"type":"string"}},"required":["text"]},
 {"name":"reach","description":"Looks around.","argv":["words","reach"]},
 {"name":"fail","description":"Fails.","argv":["words","fail"]},
 {"name":"panic","description":"Fails by a fault.","argv":["words","panic"]},
 {"name":"memory","description":"Takes memory.","argv":["words","memory"]},
 {"name":"flood","description":"Writes without end.","argv":["words","flood"]},
 {"name":"stay","description":"Never ends.","argv":["words","stay"]}]}`

// A WebAssembly module is a tool like any other by the built program: not there before it is
// approved, decided, carried out in class t0, recorded, a step of a macro, in review when its file
// is another one, and gone when it is removed (S1-35, S1-36).
func TestAModuleByTheProgram(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the program, and compiles one for WASI")
	}
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	in := func(name, text string) string {
		file := filepath.Join(home, name)
		must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	module := filepath.Join(home, "words.wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", module, "../../platform/wasm/testdata/words")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var ready struct {
		HTTP string `json:"http"`
	}
	p.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json")

	manifest := in("words.json", moduleTools)
	refused := func(want string, args ...string) {
		t.Helper()
		if out, code := p.tries("", append([]string{"provider", "add", "command", "words"}, args...)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%q: %d %s", args, code, out)
		}
	}
	refused("stand in its manifest", "--manifest", manifest, "--", "sh", "-c", "true")
	refused("no such file", "--manifest", manifest, "--", filepath.Join(home, "other.wasm"))
	refused("no WebAssembly module", "--manifest", manifest, "--", in("text.wasm", "#!/bin/sh\n"))
	refused("no folders, no network", "--manifest", manifest, "--read", home, "--", module)
	refused("reaches no files", "--manifest", in("path.json", `{"tools":[{"name":"a","argv":["a","{f}"],"params":{"f":{"type":"path"}}}]}`), "--", module)
	refused("has no execution.memory.high", "--manifest", in("keys.json", `{"tools":[{"name":"a","argv":["a"],"keys":["execution.memory.high"]}]}`), "--", module)

	out := p.does("provider", "add", "command", "words", "--manifest", manifest, "--", module)
	if !strings.Contains(out, module+"@sha256:") || !strings.Contains(out, "proposed: allow") {
		t.Errorf("added: %s", out)
	}
	if out, code := p.tries("", "call", "tool.words.upper", "--arg", "text=x"); code == 0 {
		t.Errorf("called before it was approved: %s", out)
	}
	if out := p.does("provider", "approve", "words", "--yes"); strings.Contains(out, "not ready") {
		t.Errorf("approved before its host offers it: %s", out)
	}

	call := func(tool string, args ...string) capabilities.Result {
		t.Helper()
		out, _ := p.tries("", append([]string{"call", tool, "--json"}, args...)...)
		var r capabilities.Result
		must(t, json.Unmarshal([]byte(out), &r))
		return r
	}
	got := call("tool.words.upper", "--arg", "text=grüße")
	if got.Status != capabilities.StatusOK || string(got.Output) != `{"text":"GRÜSSE"}` && string(got.Output) != `{"text":"GRÜßE"}` ||
		!got.Untrusted || got.Routing.Mode != capabilities.SelectHost || got.Effect != capabilities.EffectConfirmed {
		t.Errorf("%s %+v", got.Output, got)
	}
	story := p.does("ledger", "show", "--call", string(got.Call), "--json")
	for _, want := range []string{"tool.call.request", "tool.call.decision", "tool.call.dispatch", "tool.call.result", `"isolation_given":"t0"`, `"isolation_class":"t0"`, `"execution":[]`} {
		if !strings.Contains(story, want) {
			t.Errorf("its packets have no %s: %s", want, story)
		}
	}
	if got := call("tool.words.count", "--arg", "text=one --two three"); string(got.Output) != `{"data":{"words":3}}` {
		t.Errorf("%s %+v", got.Output, got)
	}
	if got := call("tool.words.reach"); !strings.Contains(string(got.Output), "env 0") || strings.Contains(string(got.Output), "true") {
		t.Errorf("it reaches %s", got.Output)
	}
	for tool, code := range map[string]capabilities.Code{
		"fail": capabilities.CodeExecutionFailed, "panic": capabilities.CodeExecutionFailed, "memory": capabilities.CodeExecutionFailed,
		"flood": capabilities.CodeResultTooLarge, "stay": capabilities.CodeDeadlineExceeded,
	} {
		if got := call("tool.words." + tool); got.Code != code || got.Message == "" {
			t.Errorf("%s: %+v", tool, got)
		}
	}
	if got := call("tool.words.upper", "--args", `{"text":"a\u0000b"}`); got.Code != capabilities.CodeInvalidArguments {
		t.Errorf("a zero byte: %+v", got)
	}

	p.does("provider", "add", "macro", "shout", in("shout.yaml", `
description: Counts the words of a text in capitals.
args: {text: {type: string, maxLength: 100}}
steps:
  - {id: loud, tool: tool.words.upper, with: {text: {from: /args/text}}}
  - {id: many, tool: tool.words.count, with: {text: {from: /steps/loud/output/text}}}
output: {loud: {from: /steps/loud/output/text}, many: {from: /steps/many/output/data/words}}
`))
	p.does("provider", "approve", "shout", "--allow", "all", "--yes")
	if got := call("tool.macro.shout", "--arg", "text=a b"); string(got.Output) != `{"data":{"loud":"A B","many":2}}` {
		t.Errorf("%s %+v", got.Output, got)
	}

	// Another file in its place is not run, until somebody looked at it.
	code, err := os.ReadFile(module)
	must(t, err)
	must(t, os.WriteFile(module, append(code, 0, 2, 1, 'x'), 0o600)) // a section that says nothing
	if got := call("tool.words.upper", "--arg", "text=x"); got.Code != capabilities.CodeNodeNotReady {
		t.Errorf("another module: %+v", got)
	}
	for within := time.Now().Add(2 * site.Within); !strings.Contains(p.does("provider", "show", "words"), "review"); {
		if time.Now().After(within) {
			t.Fatal("it never comes into review")
		}
	}
	if out := p.does("tools", "diff", "tool.words.upper"); !strings.Contains(out, "sha256:") {
		t.Errorf("%s", out)
	}
	p.does("provider", "approve", "words", "--yes")
	if got := call("tool.words.upper", "--arg", "text=x"); string(got.Output) != `{"text":"X"}` {
		t.Errorf("after a look: %s %+v", got.Output, got)
	}
	must(t, os.Remove(module))
	if got := call("tool.words.upper", "--arg", "text=x"); got.Status != capabilities.StatusError || got.Hint == "" {
		t.Errorf("without its file: %+v", got)
	}
	p.does("provider", "remove", "words")
	if got := call("tool.words.upper", "--arg", "text=x"); got.Code != capabilities.CodeUnknownTool {
		t.Errorf("removed: %+v", got)
	}
}
