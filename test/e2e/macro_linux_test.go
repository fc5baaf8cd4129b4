package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// macro adds one, approved and allowed.
func (h *house) macro(admin *caller, name, file string) api.Provider {
	h.t.Helper()
	return approved(h.t, admin, h.drafted(admin, name, file), "allow")
}

func (h *house) drafted(admin *caller, name, file string) (p api.Provider) {
	h.t.Helper()
	body, err := json.Marshal(api.AddProvider{Name: name, Kind: "macro", Manifest: file})
	must(h.t, err)
	admin.ok(http.MethodPost, "/v1/providers", string(body), &p)
	return p
}

const twoEchoes = `
description: Says a text twice, in two ways.
args: {text: {type: string, maxLength: 100}}
steps:
  - {id: first, tool: tool.fixture.echo, with: {text: {from: /args/text}}}
  - {id: second, tool: tool.fixture.echo, with: {text: {join: [{from: /steps/first/output/text}, " again"]}}}
output: {said: {from: /steps/second/output/text}}
`

// A macro is a tool like any other: not there before it is approved, decided, recorded with the
// calls inside it under its ID, there again after a restart, in review when its file is another,
// gone when it is removed (S3-14, S3-17 to S3-21, S4-42).
func TestAMacroIsATool(t *testing.T) {
	h, handler, n := one(t)
	admin := newCaller(t, h.URL(), h.MustToken("admin", principal.RoleAdmin))
	p := h.drafted(admin, "twice", twoEchoes)
	if len(p.Tools) != 1 || p.Tools[0].Tool != "tool.macro.twice" || p.Tools[0].State != "draft" || p.Host != "" || len(p.Tools[0].Plan) != 3 {
		t.Fatalf("%+v", p)
	}
	want(t, h.Call(ctx(), "tool.macro.twice", text("a"), ""), capabilities.StatusError, capabilities.CodeUnknownTool)
	approved(t, admin, p, "allow")
	r := h.Call(ctx(), "tool.macro.twice", text("hello"), "r1")
	want(t, r, capabilities.StatusOK, "")
	if string(r.Output) != `{"data":{"said":"hello again"}}` || handler.Runs("hello again") != 1 {
		t.Errorf("%s", r.Output)
	}
	h.wantStory(r.Call, "request", "decision", "dispatch", "result")
	if got := h.inside(r.Call); !slices.Equal(got, []string{"tool.fixture.echo ok", "tool.fixture.echo ok"}) {
		t.Errorf("inside it: %q", got)
	}
	again := h.Call(ctx(), "tool.macro.twice", text("hello"), "r1")
	if !again.Deduplicated || handler.Runs("hello") != 1 || string(again.Output) != string(r.Output) {
		t.Errorf("%+v", again)
	}
	want(t, h.Call(ctx(), "tool.macro.twice", `{}`, ""), capabilities.StatusError, capabilities.CodeInvalidArguments)

	h.Restart()
	n.AwaitReady("tyrum.fixture.echo")
	want(t, h.Call(ctx(), "tool.macro.twice", text("later"), ""), capabilities.StatusOK, "")

	admin = newCaller(t, h.URL(), h.MustToken("admin", principal.RoleAdmin))
	p = h.drafted(admin, "twice", strings.Replace(twoEchoes, " again", " and again", 1))
	if p.Tools[0].State != "review" {
		t.Errorf("%+v", p.Tools[0])
	}
	want(t, h.Call(ctx(), "tool.macro.twice", text("a"), ""), capabilities.StatusError, capabilities.CodeUnknownTool)
	if d := admin.diff("tool.macro.twice"); !strings.Contains(strings.Join(d.Lines, "\n"), "and again") {
		t.Errorf("%q", d.Lines)
	}
	approved(t, admin, p, "allow")
	if r := h.Call(ctx(), "tool.macro.twice", text("b"), ""); string(r.Output) != `{"data":{"said":"b and again"}}` {
		t.Errorf("%s %s", r.Output, r.Message)
	}
	admin.ok(http.MethodDelete, "/v1/providers/twice", "", nil)
	want(t, h.Call(ctx(), "tool.macro.twice", text("b"), ""), capabilities.StatusError, capabilities.CodeUnknownTool)
}

// A step that policy denies denies the macro before anything ran, whether its arguments are
// known by then or not; so does one whose node is not there.
func TestADeniedStepDeniesTheMacro(t *testing.T) {
	h := start(t, site.Options{Rules: site.Rules + `
@id("no-fail") forbid (principal, action == Action::"tool.fixture.fail", resource);`})
	handler := site.NewHandler()
	n := h.AddNode("one", handler)
	admin := newCaller(t, h.URL(), h.MustToken("admin", principal.RoleAdmin))
	agent := newCaller(t, h.URL(), h.MustToken("agent", principal.RoleAgent))
	for name, last := range map[string]string{
		"known":   `{id: b, tool: tool.fixture.fail, with: {text: x, code: internal}}`,
		"later":   `{id: b, tool: tool.fixture.fail, with: {text: {from: /steps/a/output/text}, code: internal}}`,
		"perhaps": `{id: b, tool: tool.fixture.fail, if: {at: /steps/a/output/text, equals: never}, with: {text: x, code: internal}}`,
		"undoes":  `{id: b, tool: tool.fixture.echo, with: {text: x}, undo: {tool: tool.fixture.fail, with: {text: x, code: internal}}}`,
	} {
		h.macro(admin, name, "description: d\nsteps:\n  - {id: a, tool: tool.fixture.echo, with: {text: first}}\n  - "+last)
		r := h.Call(ctx(), capabilities.ToolID("tool.macro."+name), `{}`, "")
		if r.Status != capabilities.StatusDenied || !strings.Contains(r.Message, "Nothing of it was carried out") || len(h.inside(r.Call)) != 0 {
			t.Errorf("%s: %s %s %s", name, r.Status, r.Code, r.Message)
		}
		h.wantStory(r.Call, "request", "decision", "failed")
		var list struct{ Tools []api.Tool }
		agent.ok(http.MethodGet, "/v1/tools", "", &list)
		if slices.ContainsFunc(list.Tools, func(tool api.Tool) bool { return tool.ID == r.Tool }) {
			t.Errorf("%s is listed, and never passes", name)
		}
	}
	h.macro(admin, "elsewhere", "description: d\nargs: {node: {type: string}}\nsteps:\n  - {id: a, tool: tool.fixture.echo, with: {text: first}}\n  - {id: b, tool: tool.fixture.echo, node: {from: /args/node}, with: {text: there}}")
	want(t, h.Call(ctx(), "tool.macro.elsewhere", `{"node":"nowhere"}`, ""), capabilities.StatusError, capabilities.CodeNodeNotFound)
	if handler.Runs("first") != 0 {
		t.Errorf("a first step ran %d times", handler.Runs("first"))
	}
	two := site.NewHandler()
	other := h.AddNode("two", two)
	h.macro(admin, "across", "description: d\nargs: {one: {type: string}, two: {type: string}}\nsteps:\n  - {id: a, tool: tool.fixture.echo, node: {from: /args/one}, with: {text: first}}\n  - {id: b, tool: tool.fixture.echo, node: {from: /args/two}, with: {text: second}}")
	want(t, h.Call(ctx(), "tool.macro.across", `{"one":"`+string(n.ID)+`","two":"`+string(other.ID)+`"}`, ""), capabilities.StatusOK, "")
	if handler.Runs("first") != 1 || two.Runs("second") != 1 {
		t.Error("the steps did not run on their nodes")
	}
}

const undoes = `
description: Does and undoes.
steps:
  - {id: a, tool: tool.fixture.echo, with: {text: did}, undo: {tool: tool.fixture.echo, with: {text: undid}}}
  - {id: b, tool: tool.fixture.slow, with: {text: waits}}
  - {id: c, tool: tool.fixture.echo, with: {text: never}}
`

// Cancelling a macro ends the call that runs inside it and undoes what was done; so does a step
// that fails (S3-14).
func TestAMacroIsUndone(t *testing.T) {
	h, handler, _ := one(t)
	admin := newCaller(t, h.URL(), h.MustToken("admin", principal.RoleAdmin))
	h.macro(admin, "undoes", undoes)
	h.macro(admin, "fails", strings.Replace(undoes, "tool.fixture.slow, with: {text: waits}", "tool.fixture.fail, with: {text: fails, code: execution_failed}", 1))
	c, cancel := context.WithCancel(ctx())
	done := h.calling(c, "tool.macro.undoes", `{}`, "")
	started(t, handler, "waits")
	cancel()
	r := await(t, "the cancelled call", done)
	want(t, r, capabilities.StatusError, capabilities.CodeCancelled)
	h.awaitStory(r.Call, "failed")
	if got := h.inside(r.Call); !slices.Equal(got, []string{"tool.fixture.echo ok", "tool.fixture.slow error cancelled", "tool.fixture.echo ok"}) {
		t.Errorf("inside it: %q", got)
	}
	if handler.Runs("undid") != 1 || handler.Runs("never") != 0 {
		t.Errorf("undid %d, never %d", handler.Runs("undid"), handler.Runs("never"))
	}
	r = h.Call(ctx(), "tool.macro.fails", `{}`, "")
	want(t, r, capabilities.StatusError, capabilities.CodeExecutionFailed)
	if details, _ := json.Marshal(r.Details); handler.Runs("undid") != 2 || !strings.Contains(string(details), `"undone":[{"step":"a"`) {
		t.Errorf("%s", details)
	}
}

// A gateway that ends in the middle of a macro says so: what it did is told, nothing of it is
// done again, and a retry is not a second run.
func TestAMacroAcrossARestart(t *testing.T) {
	h, handler, n := one(t)
	admin := newCaller(t, h.URL(), h.MustToken("admin", principal.RoleAdmin))
	h.macro(admin, "undoes", undoes)
	done := h.calling(ctx(), "tool.macro.undoes", `{}`, "once")
	started(t, handler, "waits")
	h.Restart()
	first := await(t, "the call of the ended gateway", done)
	handler.Finish("waits")
	n.AwaitReady("tyrum.fixture.echo")
	r := h.Call(ctx(), "tool.macro.undoes", `{}`, "once")
	// Its device tells what became of the call that ran: it ended well, and was not made again.
	var inside []string
	for end := time.Now().Add(site.Within); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if inside = h.inside(first.Call); len(inside) > 1 && strings.HasPrefix(inside[1], "tool.fixture.slow ") {
			break
		}
	}
	// The call that would undo the first step has no device any more, or no gateway.
	if len(inside) < 2 || handler.Runs("undid") != 0 || inside[0] != "tool.fixture.echo ok" || !strings.HasSuffix(inside[1], " ok") {
		t.Errorf("inside it: %q", inside)
	}
	if r.Status == capabilities.StatusOK || first.Status == capabilities.StatusOK {
		t.Errorf("it ended well: %+v %+v", first, r)
	}
	if handler.Runs("did") != 1 || handler.Runs("waits") != 1 || handler.Runs("never") != 0 {
		t.Errorf("did %d, waits %d, never %d", handler.Runs("did"), handler.Runs("waits"), handler.Runs("never"))
	}
}

// A macro that would loop does not: one that calls itself, or another that leads back, is refused
// when it is added, and one over a list ends at its bound before the first call.
func TestAMacroThatLoops(t *testing.T) {
	h, handler, _ := one(t)
	admin := newCaller(t, h.URL(), h.MustToken("admin", principal.RoleAdmin))
	add := func(file, name string) string {
		body, err := json.Marshal(api.AddProvider{Name: name, Kind: "macro", Manifest: file})
		must(t, err)
		return string(body)
	}
	calls := func(tool string) string {
		return "description: Calls another.\nsteps:\n  - {id: said, tool: tool.fixture.echo, with: {text: round}}\n  - {id: on, tool: " + tool + "}\n"
	}
	admin.fails(http.MethodPost, "/v1/providers", add(calls("tool.macro.self"), "self"), capabilities.CodeInvalidRequest)
	h.macro(admin, "first", "description: Says a thing.\nsteps:\n  - {id: said, tool: tool.fixture.echo, with: {text: round}}\n")
	h.macro(admin, "second", calls("tool.macro.first"))
	// The first is changed so that the second leads back to it.
	admin.fails(http.MethodPost, "/v1/providers", add(calls("tool.macro.second"), "first"), capabilities.CodeInvalidRequest)
	want(t, h.Call(ctx(), "tool.macro.second", `{}`, ""), capabilities.StatusOK, "")
	if n := handler.Runs("round"); n != 2 {
		t.Errorf("it went round %d times", n)
	}
	h.macro(admin, "list", "description: Goes over a list.\nargs: {list: {type: array, items: {type: string, maxLength: 10}}}\nsteps:\n  - {id: all, tool: tool.fixture.echo, each: {from: /args/list}, most: 3, with: {text: {from: /item}}}\n")
	want(t, h.Call(ctx(), "tool.macro.list", `{"list":["x","x","x","x"]}`, ""), capabilities.StatusError, capabilities.CodeInvalidArguments)
	if n := handler.Runs("x"); n != 0 {
		t.Errorf("the list was begun: %d calls", n)
	}
	want(t, h.Call(ctx(), "tool.macro.list", `{"list":["x","x","x"]}`, ""), capabilities.StatusOK, "")
}
