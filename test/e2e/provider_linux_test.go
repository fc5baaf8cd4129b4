package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// hosting is a site with a node that hosts providers.
func hosting(t *testing.T) (*house, *site.Node, *caller) { return hostingBy(t, site.Options{}) }

func hostingBy(t *testing.T, o site.Options) (*house, *site.Node, *caller) {
	t.Helper()
	walls, err := site.NewWalls()
	if err != nil {
		t.Skip(err)
	}
	h := start(t, o)
	n := h.AddNodeWith("desk", hosts(t, walls), site.NewHandler())
	n.AwaitReady("tyrum.provider.host")
	return h, n, newCaller(t, h.URL(), h.MustToken("admin", principal.RoleAdmin))
}

// hosts has a node host providers; each start of it reads what an earlier one kept.
func hosts(t testing.TB, walls site.Walls) func(*agent.Options) {
	return func(o *agent.Options) {
		cat, err := catalog.Embedded()
		must(t, err)
		news := make(chan struct{}, 1)
		host, err := provider.New(provider.Options{
			Dir: filepath.Join(o.Dir, "providers"), Catalog: cat, Start: walls, Allowed: true,
			Changed: func() {
				select {
				case news <- struct{}{}:
				default:
				}
			},
		})
		must(t, err)
		o.Handlers, o.Hosted, o.HostedChanged = append(o.Handlers, host), host, news
	}
}

const programs = `{"tools":[
 {"name":"wordCount","description":"Counts the words of a file.","argv":["wc","-w","--","{file}"],"params":{"file":{"type":"path"}},"required":["file"],"read_only":true},
 {"name":"upper","description":"Writes a text in capitals.","argv":["tr","a-z","A-Z"],"params":{"text":{"type":"string"}},"stdin":"text","required":["text"]},
 {"name":"shadow","description":"Looks where it may not.","argv":["cat","--","/etc/shadow"],"read_only":true},
 {"name":"elsewhere","description":"Goes where it may not.","argv":["bash","-c","exec 3<>/dev/tcp/127.0.0.1/1"],"read_only":true},
 {"name":"data","description":"Answers with JSON.","argv":["echo","{\"n\":1}"],"output":"json","read_only":true},
 {"name":"flood","description":"Never ends.","argv":["yes"],"read_only":true}]}`

func added(t *testing.T, c *caller, n *site.Node, name, manifest, read string) api.Provider {
	t.Helper()
	body, err := json.Marshal(api.AddProvider{Name: name, Kind: "command", Host: n.ID, Manifest: manifest, Read: []string{read}})
	must(t, err)
	var p api.Provider
	c.ok(http.MethodPost, "/v1/providers", string(body), &p)
	return p
}

func approved(t testing.TB, c *caller, p api.Provider, effect string) api.Provider {
	t.Helper()
	a := api.ApproveProvider{ManifestHash: p.ManifestHash, Tools: map[capabilities.ToolID]api.ToolChoice{}}
	for _, tool := range p.Tools {
		a.Tools[tool.Tool] = api.ToolChoice{Effect: effect}
	}
	body, err := json.Marshal(a)
	must(t, err)
	var out api.Provider
	c.ok(http.MethodPost, "/v1/providers/"+p.Name+"/approve", string(body), &out)
	return out
}

// A command is a tool like any other: not there before it is approved, decided by policy,
// carried out by the node that hosts it, recorded, there again after both restarted, and gone
// when it is removed (S3-07, S3-20, S4-42).
func TestACommandIsATool(t *testing.T) {
	h, n, admin := hosting(t)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one two three"), 0o600))
	p := added(t, admin, n, "local", programs, dir)
	if len(p.Tools) != 6 || p.Tools[0].State != "draft" {
		t.Fatalf("%+v", p)
	}
	want(t, h.Call(ctx(), "tool.local.upper", `{"text":"x"}`, ""), capabilities.StatusError, capabilities.CodeUnknownTool)

	// It is told apart from a tool that nobody has, to those who may see providers.
	for role, want := range map[string]capabilities.Action{
		"admin":    {Key: capabilities.ActionApproveProvider, Name: "local"},
		"operator": {Key: capabilities.ActionApproveProvider, Name: "local"},
		"agent":    {Key: capabilities.ActionListTools},
	} {
		r := h.Dispatcher.Call(ctx(), dispatch.Request{
			Caller: dispatch.Caller{Principal: "someone", Role: role, Lane: "main"}, Tool: "tool.local.upper", Args: json.RawMessage(`{"text":"x"}`), Surface: "test",
		})
		if r.Code != capabilities.CodeUnknownTool || r.Action != want || strings.Contains(r.Message, "draft") != (want.Name != "") {
			t.Errorf("%s: %+v", role, r)
		}
	}

	// The rules that an approval adds are shown before: as proposed, and as they are chosen.
	if !strings.Contains(p.Rules, "permit (principal, action in [\n  Action::\"tool.local.upper\"\n], resource)\nwhen { context.consent };") {
		t.Errorf("the rules as proposed: %s", p.Rules)
	}
	body, err := json.Marshal(api.ApproveProvider{
		ManifestHash: p.ManifestHash, Preview: true, Tools: map[capabilities.ToolID]api.ToolChoice{"tool.local.upper": {Effect: "allow"}, "tool.local.flood": {Effect: "deny"}},
	})
	must(t, err)
	var then api.Provider
	admin.ok(http.MethodPost, "/v1/providers/local/approve", string(body), &then)
	if !strings.Contains(then.Rules, `  Action::"tool.local.upper",`) || strings.Contains(then.Rules, "consent") || strings.Contains(then.Rules, "tool.local.flood") || then.Tools[0].State != "draft" {
		t.Errorf("the rules as chosen: %s %+v", then.Rules, then.Tools[0])
	}

	now := approved(t, admin, p, "allow")
	if data, err := os.ReadFile(filepath.Join(h.Dir, "policy", "provider-local.cedar")); err != nil || string(data) != now.Rules {
		t.Errorf("the rules in force: %s, shown %s %v", data, now.Rules, err)
	}
	h.Await("its tools", func() bool {
		r := h.Call(ctx(), "tool.local.upper", `{"text":"hello"}`, "")
		return r.Status == capabilities.StatusOK
	})
	r := h.Call(ctx(), "tool.local.word-count", `{"file":"a.txt"}`, "")
	want(t, r, capabilities.StatusOK, "")
	if !strings.Contains(string(r.Output), "3 ") || !r.Untrusted || r.Routing.Selected != n.ID || r.Routing.Mode != capabilities.SelectHost {
		t.Errorf("%s %+v", r.Output, r.Routing)
	}
	h.wantStory(r.Call, "request", "decision", "dispatch", "result")

	// The walls stand, and what fails says so; what was tried is drift.
	h.Drifts = true
	for _, tool := range []capabilities.ToolID{"tool.local.shadow", "tool.local.elsewhere"} {
		r := h.Call(ctx(), tool, `{}`, "")
		want(t, r, capabilities.StatusError, capabilities.CodeExecutionFailed)
		if details, _ := json.Marshal(r.Details); !strings.Contains(string(details), "Permission denied") && !strings.Contains(string(details), "No such file or directory") {
			t.Errorf("%s: %s", tool, details)
		}
	}
	want(t, h.Call(ctx(), "tool.local.word-count", `{"file":"/etc/passwd"}`, ""), capabilities.StatusError, capabilities.CodeInvalidArguments)
	want(t, h.Call(ctx(), "tool.local.flood", `{}`, ""), capabilities.StatusError, capabilities.CodeResultTooLarge)
	if r := h.Call(ctx(), "tool.local.data", `{}`, ""); !strings.Contains(string(r.Output), `"n":1`) {
		t.Errorf("%s", r.Output)
	}

	n.Stop()
	h.Restart()
	n.Start()
	n.AwaitReady("tyrum.local.upper")
	want(t, h.Call(ctx(), "tool.local.upper", `{"text":"again"}`, ""), capabilities.StatusOK, "")

	admin = newCaller(t, h.URL(), h.MustToken("admin", principal.RoleAdmin))
	admin.ok(http.MethodDelete, "/v1/providers/local", "", nil)
	want(t, h.Call(ctx(), "tool.local.upper", `{"text":"x"}`, ""), capabilities.StatusError, capabilities.CodeUnknownTool)
}

// The host's allowlist has a provider from its approval to its removal, and nothing of it stays for
// another of that name; what an admin put there stays. A host that is revoked delays no removal.
func TestAHostsAllowlistForgetsAProvider(t *testing.T) {
	h, n, admin := hosting(t)
	_, err := h.Nodes.Change(ctx(), n.ID, nodes.Edit{By: "admin", Allow: &[]string{"tyrum.provider.*", "tyrum.fs.*"}})
	must(t, err)
	wants := func(want ...string) {
		t.Helper()
		v, err := h.Nodes.View(n.ID)
		must(t, err)
		if !slices.Equal(v.Allow, want) {
			t.Errorf("its allowlist is %q, want %q", v.Allow, want)
		}
	}
	for _, name := range []string{"local", "other"} {
		approved(t, admin, added(t, admin, n, name, programs, t.TempDir()), "allow")
	}
	wants("tyrum.fs.*", "tyrum.local.*", "tyrum.other.*", "tyrum.provider.*")
	n.AwaitReady("tyrum.local.upper", "tyrum.other.upper")
	admin.ok(http.MethodDelete, "/v1/providers/local", "", nil)
	wants("tyrum.fs.*", "tyrum.other.*", "tyrum.provider.*")
	want(t, h.Call(ctx(), "tool.other.upper", `{"text":"hello"}`, ""), capabilities.StatusOK, "")
	admin.ok(http.MethodPost, "/v1/nodes/"+string(n.ID)+"/revoke", `{"reason":"it is sold"}`, nil)
	_, _, err = admin.try(ctx(), http.MethodDelete, "/v1/providers/other", "") // nobody can be told
	must(t, err)
	admin.fails(http.MethodGet, "/v1/providers/other", "", capabilities.CodeNotFound)
}

// An approval is for the manifest that was looked at: another one by then approves nothing, and an
// agent can neither add nor approve.
func TestAnApprovalNamesWhatWasLookedAt(t *testing.T) {
	h, n, admin := hosting(t)
	p := added(t, admin, n, "local", programs, t.TempDir())
	p.ManifestHash = "sha256:other"
	body, err := json.Marshal(api.ApproveProvider{ManifestHash: p.ManifestHash})
	must(t, err)
	admin.fails(http.MethodPost, "/v1/providers/local/approve", string(body), capabilities.CodeConflict)
	agent := newCaller(t, h.URL(), h.MustToken("agent", principal.RoleAgent))
	agent.fails(http.MethodPost, "/v1/providers/local/approve", string(body), capabilities.CodeForbidden)
	agent.fails(http.MethodGet, "/v1/providers", "", capabilities.CodeForbidden)
	for name, code := range map[string]capabilities.Code{"browser": capabilities.CodeInvalidRequest, "local": capabilities.CodeConflict, "brovvser": capabilities.CodeConflict} {
		add, err := json.Marshal(api.AddProvider{Name: name, Kind: "command", Host: n.ID, Manifest: programs})
		must(t, err)
		admin.fails(http.MethodPost, "/v1/providers", string(add), code)
	}
}
