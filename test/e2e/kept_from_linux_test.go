package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// A program that was kept from changing a file is named in the check of its provider, with the flag
// that allows it, whether it serves one call or many; an error that says nothing of what to do says
// that. A macro whose step calls a tool that is gone says so, and is there again with the tool.
func TestAProviderSaysWhatItWasKeptFrom(t *testing.T) {
	h, n, admin := hosting(t)
	h.Drifts = true
	base := privateDir(t)
	lib, mine := filepath.Join(base, "lib"), filepath.Join(base, "mine")
	for _, dir := range []string{lib, mine} {
		must(t, os.Mkdir(dir, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(lib, "scribbles.sh"), []byte(scribbles), 0o644))
	command := api.AddProvider{Name: "cmd", Kind: "command", Host: n.ID, Manifest: `{"tools":[{"name":"write","argv":["bash","-c","echo x > \"$2\"","bash","--","{path}"],"params":{"path":{"type":"string"}},"required":["path"]}]}`}
	add := func(p api.AddProvider) {
		t.Helper()
		body, err := json.Marshal(p)
		must(t, err)
		var added api.Provider
		admin.ok(http.MethodPost, "/v1/providers", string(body), &added)
		approved(t, admin, added, "allow")
	}
	add(command)
	add(api.AddProvider{Name: "server", Kind: "mcp", Host: n.ID, Command: []string{"bash", filepath.Join(lib, "scribbles.sh"), mine}, Read: []string{lib}})
	n.AwaitReady("tyrum.cmd.write", "tyrum.server.write")
	approved(t, admin, h.drafted(admin, "keeps", `description: Keeps.
args: {path: {type: string}}
steps:
  - {id: keep, tool: tool.cmd.write, with: {path: {from: /args/path}}}
`), "allow")

	path := filepath.Join(mine, "new")
	args, err := json.Marshal(map[string]string{"path": path})
	must(t, err)
	r := h.Call(ctx(), "tool.cmd.write", string(args), "")
	if want(t, r, capabilities.StatusError, capabilities.CodeExecutionFailed); !strings.Contains(r.Hint, path) || !strings.Contains(r.Hint, "--write "+mine) {
		t.Errorf("%q", r.Hint)
	}
	want(t, h.Call(ctx(), "tool.server.write", string(args), ""), capabilities.StatusOK, "")
	for _, name := range []string{"cmd", "server"} {
		var p api.Provider
		admin.ok(http.MethodPost, "/v1/providers/"+name+"/check", `{}`, &p)
		if !slices.ContainsFunc(p.Tried, func(tried api.TriedHost) bool {
			return tried.Target == "to change "+path && tried.Flag == "--write "+mine && tried.Count == 1
		}) {
			t.Errorf("%s: %+v", name, p.Tried)
		}
	}

	shown := func() (p api.Provider) {
		t.Helper()
		admin.ok(http.MethodGet, "/v1/providers/keeps", "", &p)
		return p
	}
	if p := shown(); !p.Ready {
		t.Errorf("%+v", p)
	}
	admin.ok(http.MethodDelete, "/v1/providers/cmd", "", nil)
	if p := shown(); p.Ready || p.Reason != capabilities.ReasonBackendMissing || !strings.Contains(p.Fix, "tool.cmd.write") {
		t.Errorf("%+v", p)
	}
	add(command)
	if p := shown(); !p.Ready {
		t.Errorf("%+v", p)
	}
}
