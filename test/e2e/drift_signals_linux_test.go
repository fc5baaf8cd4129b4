package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// provoked is a call that does what one signal is about, or why its kind has none.
type provoked struct {
	tool, args string
	evidence   string
	by         capabilities.ToolID // whose event it is; default: of tool
	why        string              // in docs/governance.md, too
}

const (
	ownClient  = "no program of it runs here: the node's own client sends one request, to its origin"
	elsewhere  = "its machine is its own: it counts as t2, and the gateway sees none of its walls"
	pages      = "pages reach what the browser's proxy lets through, and a page that asks for more is refused, not drifting"
	noValue    = "a value comes sealed, for one delivery, or by `--env` at a program's start; nothing here can ask for another"
	startsNot  = "it is not started below its class: `isolation_unavailable`"
	ownSession = "its descriptor names the session"
)

// Each of the five signals is provoked for each kind of tool of the built program, where that kind
// can have it, and seen in its list of drift with the call that did it; the documents say why
// another has none. A page can show a key of any kind's call (S1-43 to S1-50).
func TestEachSignalOfEachKind(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the program")
	}
	b := newBuilt(t, "", "--workspace-net", "api.example")
	outside := filepath.Join(b.home, "outside")
	bash := func(command string) string {
		text, err := json.Marshal(map[string]string{"command": command})
		must(t, err)
		return string(text)
	}
	reach, write := bash("exec 3<>/dev/tcp/127.0.0.1/1; true"), bash("echo x > "+outside+"; true")
	var macro api.Provider
	body, err := json.Marshal(api.AddProvider{Name: "steps", Kind: "macro", Manifest: `
description: Runs a command.
args: {command: {type: string, maxLength: 500}}
steps:
  - {id: a, tool: tool.fs.bash, with: {command: {from: /args/command}}}
`})
	must(t, err)
	b.admin.ok(http.MethodPost, "/v1/providers", string(body), &macro)
	approved(t, b.admin, macro, "allow")
	b.rules(`@id("bash") permit (principal, action == Action::"tool.fs.bash", resource);
@id("pages") permit (principal, action in [Action::"tool.browser.navigate", Action::"tool.browser.run-code"], resource);`)

	document, err := os.ReadFile("../../docs/governance.md")
	must(t, err)
	says := string(document)
	shown := provoked{evidence: "/console/calls"}
	for _, kind := range []struct {
		name     string
		harmless provoked // a call that a page shows too much of
		signals  map[string]provoked
	}{
		{"built-in (bash)", provoked{tool: "tool.fs.bash", args: bash("true")}, map[string]provoked{
			"network": {tool: "tool.fs.bash", args: reach, evidence: "127.0.0.1:1"}, "write": {tool: "tool.fs.bash", args: write, evidence: outside},
			"secret": {why: noValue}, "surface": shown, "isolation": {why: startsNot}}},
		{"command", provoked{tool: "tool.cmd.say", args: `{}`}, map[string]provoked{
			"network": {tool: "tool.cmd.reach", args: `{}`, evidence: "127.0.0.1:1"}, "write": {tool: "tool.cmd.write", args: `{}`, evidence: b.dir("cmd") + ".owned"},
			"secret": {why: noValue}, "surface": shown, "isolation": {why: startsNot}}},
		{"MCP server", provoked{tool: "tool.mcp.say", args: `{}`}, map[string]provoked{
			"network": {tool: "tool.mcp.reach", args: `{}`, evidence: "127.0.0.1:1"}, "write": {tool: "tool.mcp.write", args: `{}`, evidence: b.dir("mcp") + ".owned"},
			"secret": {why: noValue}, "surface": shown, "isolation": {why: startsNot}}},
		{"OpenAPI client", provoked{tool: "tool.api.say", args: `{}`}, map[string]provoked{
			"network": {why: ownClient}, "write": {why: ownClient}, "secret": {why: noValue}, "surface": shown, "isolation": {why: ownClient}}},
		{"satellite", provoked{tool: "tool.sat.say", args: `{}`}, map[string]provoked{
			"network": {tool: "tool.sat.reach", args: `{}`, evidence: "127.0.0.1:1"}, "write": {tool: "tool.sat.write", args: `{}`, evidence: b.dir("sat") + ".owned"},
			"secret": {why: noValue}, "surface": shown, "isolation": {why: elsewhere}}},
		{"browser", provoked{tool: "tool.browser.navigate", args: `{"url":"data:text/html,hello"}`}, map[string]provoked{
			"network": {why: pages}, "write": {why: pages}, "secret": {why: noValue}, "surface": shown, "isolation": {why: ownSession}}},
		{"macro step", provoked{tool: "tool.macro.steps", args: bash("true")}, map[string]provoked{
			"network": {tool: "tool.macro.steps", args: reach, evidence: "an IPv4 socket", by: "tool.fs.bash"}, "write": {tool: "tool.macro.steps", args: write, evidence: outside, by: "tool.fs.bash"},
			"secret": {why: noValue}, "surface": shown, "isolation": {why: startsNot}}},
		{"run-code step", provoked{tool: "tool.browser.run-code", args: `{"code":"await page.goto('data:text/html,hello'); return 1"}`}, map[string]provoked{
			"network": {why: pages}, "write": {why: pages}, "secret": {why: noValue}, "surface": shown, "isolation": {why: ownSession}}},
	} {
		for _, signal := range []string{"network", "write", "secret", "surface", "isolation"} {
			p, told := kind.signals[signal]
			switch {
			case !told:
				t.Errorf("%s, %s: nobody says", kind.name, signal)
			case p.why != "":
				if !strings.Contains(says, p.why) {
					t.Errorf("docs/governance.md does not say of %s, %s: %s", kind.name, signal, p.why)
				}
			default:
				b.seen(kind.name, signal, p, kind.harmless)
			}
		}
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("a command wrote outside its folder")
	}
}

// seen provokes a signal and looks for its event, and for the events of nothing else.
func (b *built) seen(kind, signal string, p, harmless provoked) {
	b.t.Helper()
	before := b.drift()
	for _, q := range before.Quarantined { // of the signals before
		b.does("drift", "lift", q.Runner, "--reason", "a test of ours")
	}
	of := p.tool
	if signal == "surface" {
		of, p.args = harmless.tool, harmless.args
	}
	r := b.call(of, p.args, "")
	if r.Status == capabilities.StatusDenied || r.Code == capabilities.CodeDriftCritical {
		b.t.Errorf("%s, %s: %s %s", kind, signal, r.Code, r.Message)
		return
	}
	if signal == "surface" {
		body, err := json.Marshal(api.Surfaced{Surface: "console", Page: p.evidence, Keys: []api.SurfacedKey{{Call: r.Call, Key: "privileged.secret.read"}}})
		must(b.t, err)
		b.admin.ok(http.MethodPost, "/v1/surfaced", string(body), nil)
	}
	after := b.drift()
	if len(after.Events) != len(before.Events)+1 {
		b.t.Errorf("%s, %s: %d events after %d", kind, signal, len(after.Events), len(before.Events))
		return
	}
	e := after.Events[0]
	if p.by == "" {
		p.by = capabilities.ToolID(of)
	}
	own := e.Call == r.Call && e.Tool == p.by
	switch {
	case signal == "surface":
		own = e.Call == r.Call
	case string(p.by) != of: // a step has a call of its own
		own = e.Call != "" && e.Call != r.Call && e.Tool == p.by
	}
	if e.Signal != signal || !own || !strings.Contains(e.Evidence, p.evidence) {
		b.t.Errorf("%s, %s of %s: %+v", kind, signal, r.Call, e)
	}
}

func (b *built) drift() (list api.DriftList) {
	b.t.Helper()
	b.admin.ok(http.MethodGet, "/v1/drift?limit=500", "", &list)
	return list
}
