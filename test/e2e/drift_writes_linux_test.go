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
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/test/site"
)

// scribbles is an MCP server on its standard streams that writes to the path in its argument, and
// answers a call of pair only when there are two of them.
const scribbles = `waits=
while read -r line; do
[[ $line =~ \"id\":([0-9]+) ]] || continue
id=${BASH_REMATCH[1]}
tell() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
said='{"content":[{"type":"text","text":"hello"}]}'
case $line in
*'"method":"initialize"'*) tell $id '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"scribbles","version":"1"}}' ;;
*'"method":"tools/list"'*) tell $id '{"tools":[{"name":"write","description":"Writes.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}},{"name":"pair","description":"Waits.","inputSchema":{"type":"object"}}]}' ;;
*'"name":"write"'*) [[ $line =~ \"path\":\"([^\"]*)\" ]] && (echo x > "${BASH_REMATCH[1]}") 2>/dev/null; tell $id "$said" ;;
*'"name":"pair"'*) if [[ $waits ]]; then (echo x > "$1/together") 2>/dev/null; tell $waits "$said"; tell $id "$said"; waits=; else waits=$id; fi ;;
*) tell $id '{}' ;;
esac
done
`

// A program that would write outside its folders is refused by its walls and leaves a violation
// with the call that it tried in, whether it serves one call or many; an attempt while a server
// carries out two is the provider's, with both named. A temporary file in the system's folder is a
// warning, and asking for files that are not there, or to read others, is nothing (S1-02, S1-45,
// S1-49, S1-50).
func TestWritesOutsideDrift(t *testing.T) {
	t.Parallel()
	h, n, admin := hosting(t)
	h.Drifts = true
	base := privateDir(t)
	lib, mine := filepath.Join(base, "lib"), filepath.Join(base, "mine")
	for _, dir := range []string{lib, mine} {
		must(t, os.Mkdir(dir, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(lib, "scribbles.sh"), []byte(scribbles), 0o644))
	must(t, os.WriteFile(filepath.Join(mine, "file"), []byte("mine"), 0o644))
	for _, p := range []api.AddProvider{
		{Name: "cmd", Kind: "command", Manifest: `{"tools":[{"name":"write","argv":["bash","-c","cat /etc/shadow; echo x > \"$2\"; true","bash","--","{path}"],"params":{"path":{"type":"string"}},"required":["path"]}]}`},
		{Name: "server", Kind: "mcp", Command: []string{"bash", filepath.Join(lib, "scribbles.sh"), mine}, Read: []string{lib}},
	} {
		p.Host = n.ID
		body, err := json.Marshal(p)
		must(t, err)
		var added api.Provider
		admin.ok(http.MethodPost, "/v1/providers", string(body), &added)
		approved(t, admin, added, "allow")
	}
	n.AwaitReady("tyrum.cmd.write", "tyrum.server.write")
	last := func(tool capabilities.ToolID, many int) events.Event {
		t.Helper()
		list, _, err := h.Drift.List(ctx(), events.Filter{Tool: tool})
		must(t, err)
		if len(list) != many {
			t.Fatalf("%s: %d events, want %d: %+v", tool, len(list), many, list)
		}
		return list[0]
	}
	write := func(tool capabilities.ToolID, path string) capabilities.Result {
		t.Helper()
		args, err := json.Marshal(map[string]string{"path": path})
		must(t, err)
		r := h.Call(ctx(), tool, string(args), "")
		want(t, r, capabilities.StatusOK, "")
		return r
	}
	for _, tool := range []capabilities.ToolID{"tool.cmd.write", "tool.server.write"} {
		for i, c := range []struct {
			path, key string
			severity  drift.Severity
		}{
			{filepath.Join(mine, "file"), capabilities.KeyWrite, drift.Violation},
			{filepath.Join(mine, "new"), capabilities.KeyWrite, drift.Violation},
			{"/tmp/handrail-test-of-temporary-files", capabilities.KeyTemp, drift.Warning},
		} {
			r := write(tool, c.path)
			e := last(tool, i+1)
			if e.Call != r.Call || e.Signal != drift.Write || e.Severity != c.severity || e.Key != c.key || e.Evidence != c.path || e.Response == drift.Quarantined {
				t.Errorf("%s to %s: %+v", tool, c.path, e)
			}
		}
		write(tool, filepath.Join(mine, "none", "file"))
		write(tool, "/dev/null")
		last(tool, 3)
	}
	if text, err := os.ReadFile(filepath.Join(mine, "file")); err != nil || string(text) != "mine" {
		t.Errorf("%q %v", text, err)
	}

	// Of two calls at once.
	h.lift()
	done := []<-chan capabilities.Result{h.calling(ctx(), "tool.server.pair", `{}`, ""), h.calling(ctx(), "tool.server.pair", `{}`, "")}
	var calls []string
	for _, one := range done {
		r := await(t, "a call of the pair", one)
		want(t, r, capabilities.StatusOK, "")
		calls = append(calls, string(r.Call))
	}
	e := last("tool.server.pair", 1)
	if e.Call != "" || e.Raises != 0 || e.Response != drift.Quarantined || !strings.Contains(e.Evidence, calls[0]) || !strings.Contains(e.Evidence, calls[1]) {
		t.Errorf("%+v", e)
	}
	packets, err := h.Ledger.Packets(ctx(), ledger.Query{Kind: ledger.KindDrift, Limit: 100})
	must(t, err)
	var one packet.Drift
	for _, p := range packets {
		if p.Tool == "tool.server.pair" {
			must(t, json.Unmarshal(p.Body, &one))
		}
	}
	if len(one.Among) != 2 {
		t.Errorf("%+v", one)
	}
	want(t, h.Call(ctx(), site.ToolEcho, `{"text":"x"}`, ""), capabilities.StatusOK, "")
}

// Beyond the number of events of one call they are counted: sixteen are recorded, one packet says
// how many more there were, and none is missing (S1-65).
func TestManyWritesAreCounted(t *testing.T) {
	h, n, admin := hosting(t)
	h.Drifts = true
	base := privateDir(t)
	body, err := json.Marshal(api.AddProvider{Name: "cmd", Kind: "command", Host: n.ID, Manifest: `{"tools":[{"name":"flood","argv":["bash","-c","for ((i=0;i<100;i++)); do echo x > ` + base + `/$i; done; true"]}]}`})
	must(t, err)
	var added api.Provider
	admin.ok(http.MethodPost, "/v1/providers", string(body), &added)
	approved(t, admin, added, "allow")
	n.AwaitReady("tyrum.cmd.flood")
	r := h.Call(ctx(), "tool.cmd.flood", `{}`, "")
	want(t, r, capabilities.StatusOK, "")
	packets, err := h.Ledger.Packets(ctx(), ledger.Query{Kind: "gateway.drift.", Limit: 100})
	must(t, err)
	var events, uncounted int
	for _, p := range packets {
		switch p.Kind {
		case ledger.KindDrift:
			events++
		case ledger.KindDriftUncounted:
			var d packet.DriftUncounted
			must(t, json.Unmarshal(p.Body, &d))
			if uncounted += int(d.Events); d.Call != r.Call || d.Severity != drift.Violation {
				t.Errorf("%+v", d)
			}
		}
	}
	if events != 16 || events+uncounted != 100 {
		t.Errorf("%d events, %d more", events, uncounted)
	}
}
