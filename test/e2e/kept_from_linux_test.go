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

// A server that wants to read what it was not given is named in the check of its provider, with
// the path and the flag that gives it; one that does not start without says so when it is added;
// and what is wanted in a call alone is named by the check after it.
// Nobody names what it was given, what is not there and what the system has.
func TestAProviderSaysWhatItCouldNotRead(t *testing.T) {
	t.Parallel()
	h, n, admin := hosting(t)
	base := privateDir(t)
	lib, mine := filepath.Join(base, "lib"), filepath.Join(base, "mine")
	for _, dir := range []string{lib, mine} {
		must(t, os.Mkdir(dir, 0o755))
	}
	notes := filepath.Join(mine, "notes.txt")
	must(t, os.WriteFile(notes, []byte("the rent"), 0o644))
	must(t, os.WriteFile(filepath.Join(lib, "curious.sh"), []byte(`cat "$0" /etc/passwd "$1/none.txt" "$1/notes.txt" >/dev/null 2>&1
`+scribbles), 0o644))
	must(t, os.WriteFile(filepath.Join(lib, "needs.sh"), []byte(`[ -r "$1/notes.txt" ] || exit 3
`+scribbles), 0o644))
	server := func(name, script string, read ...string) string {
		t.Helper()
		p := api.AddProvider{Name: name, Kind: "mcp", Host: n.ID, Command: []string{"bash", filepath.Join(lib, script), mine}, Read: append(read, lib)}
		body, err := json.Marshal(p)
		must(t, err)
		return string(body)
	}

	var p api.Provider
	admin.ok(http.MethodPost, "/v1/providers", server("curious", "curious.sh"), &p)
	if len(p.Tried) != 0 {
		t.Errorf("added: %+v", p.Tried)
	}
	approved(t, admin, p, "allow")
	admin.ok(http.MethodPost, "/v1/providers/curious/check", `{}`, &p)
	want := []api.TriedHost{{Target: "to read " + notes, Why: "it lies in no folder that the provider may read", Flag: "--read " + mine, Count: 1}}
	if !slices.Equal(p.Tried, want) {
		t.Errorf("%+v", p.Tried)
	}

	status, answer := admin.do(http.MethodPost, "/v1/providers", server("needs", "needs.sh"))
	if status < 400 || !strings.Contains(string(answer), "--read "+mine) || !strings.Contains(string(answer), notes) {
		t.Errorf("%d %s", status, answer)
	}
	admin.ok(http.MethodPost, "/v1/providers", server("needs", "needs.sh", mine), &p)

	// A file that a call alone wants is named after a check, of a server and of a command.
	asks := strings.Replace(scribbles, `(echo x > "${BASH_REMATCH[1]}") 2>/dev/null`, `cat "${BASH_REMATCH[1]}" >/dev/null 2>&1`, 1)
	must(t, os.WriteFile(filepath.Join(lib, "asks.sh"), []byte(asks), 0o644))
	admin.ok(http.MethodPost, "/v1/providers", server("asks", "asks.sh"), &p)
	approved(t, admin, p, "allow")
	cat, err := json.Marshal(api.AddProvider{Name: "cat", Kind: "command", Host: n.ID, Manifest: `{"tools":[{"name":"write","argv":["cat","--","{path}"],"params":{"path":{"type":"string"}},"required":["path"]}]}`})
	must(t, err)
	admin.ok(http.MethodPost, "/v1/providers", string(cat), &p)
	approved(t, admin, p, "allow")
	n.AwaitReady("tyrum.asks.write", "tyrum.cat.write")
	args, err := json.Marshal(map[string]string{"path": notes})
	must(t, err)
	for _, name := range []string{"asks", "cat"} {
		for _, told := range [][]api.TriedHost{nil, want} {
			h.Call(ctx(), capabilities.ToolID("tool."+name+".write"), string(args), "") // not watched before the first check
			var now api.Provider
			admin.ok(http.MethodPost, "/v1/providers/"+name+"/check", `{}`, &now)
			if !slices.Equal(now.Tried, told) {
				t.Errorf("%s: %+v, want %+v", name, now.Tried, told)
			}
		}
	}

	// Where it was kept from nothing the fix says how to find out.
	must(t, os.WriteFile(filepath.Join(lib, "fails.sh"), []byte("exit 4\n"), 0o644))
	status, answer = admin.do(http.MethodPost, "/v1/providers", server("fails", "fails.sh"))
	if status < 400 || !strings.Contains(string(answer), "Start its command on that device by hand") || strings.Contains(string(answer), "See the message") {
		t.Errorf("%d %s", status, answer)
	}
}
