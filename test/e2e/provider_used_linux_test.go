package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// does is a provider of which one tool uses what it declares and the other nothing of it.
const does = `{"tools":[
 {"name":"idle","argv":["true"]},
 {"name":"busy","argv":["bash","-c","exec 3<>/dev/tcp/$2/$3 && printf 'GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n' >&3 && cat <&3 && echo x > \"$4\"","bash","--","{host}","{port}","{file}"],"params":{"host":{"type":"string"},"port":{"type":"integer"},"file":{"type":"path"}},"required":["host","port","file"]}]}`

// The governance view says which of a provider's tools ask for more than they use; each call's end
// says which walls stood around its program, with the runner that the decision named (S1-43,
// S1-56).
func TestAProvidersToolThatAsksForMoreThanItUses(t *testing.T) {
	h, n, admin := hosting(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("here I am")) }))
	defer server.Close()
	at, dir := strings.TrimPrefix(server.URL, "http://"), t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	body, err := json.Marshal(api.AddProvider{Name: "local", Kind: "command", Host: n.ID, Manifest: does, Net: []string{at}, Write: []string{dir}})
	must(t, err)
	var p api.Provider
	admin.ok(http.MethodPost, "/v1/providers", string(body), &p)
	approved(t, admin, p, "allow")
	n.AwaitReady("tyrum.local.idle", "tyrum.local.busy")
	host, port, _ := strings.Cut(at, ":")
	file, err := json.Marshal(filepath.Join(dir, "file"))
	must(t, err)
	calls := []capabilities.CallID{}
	for tool, args := range map[capabilities.ToolID]string{"tool.local.idle": `{}`, "tool.local.busy": `{"host":"` + host + `","port":` + port + `,"file":` + string(file) + `}`} {
		r := h.Call(ctx(), tool, args, "")
		want(t, r, capabilities.StatusOK, "")
		calls = append(calls, r.Call)
	}
	var coverage api.Coverage
	admin.ok(http.MethodGet, "/v1/governance/coverage", "", &coverage)
	seen := map[string]bool{}
	for _, r := range coverage.Rows {
		if r.Slug == "local" || strings.HasPrefix(string(r.Tool), "tool.local.") {
			seen[r.Action+" "+r.Key] = r.Unused
		}
	}
	for row, unused := range map[string]bool{
		"idle network.egress.https": true, "idle data.write.workspace": true, "idle execution.proc.spawn": false, "idle data.read.workspace": false,
		"busy network.egress.https": false, "busy data.write.workspace": false, "busy execution.proc.spawn": false,
	} {
		if is, there := seen[row]; !there || is != unused {
			t.Errorf("%s: unused %v (there: %v), want %v", row, is, there, unused)
		}
	}
	for _, call := range calls {
		var list struct {
			Packets []api.Packet `json:"packets"`
		}
		admin.ok(http.MethodGet, "/v1/ledger/packets?call="+string(call), "", &list)
		var decision packet.Decision
		var end packet.End
		for _, one := range list.Packets {
			switch one.Kind {
			case "tool.call.decision":
				must(t, json.Unmarshal(one.Body, &decision))
			case "tool.call.result":
				must(t, json.Unmarshal(one.Body, &end))
			}
		}
		if len(end.Runners) != 1 {
			t.Fatalf("%s: %+v", call, end.Runners)
		}
		r := end.Runners[0]
		if r.Runner != decision.Runner || r.Class != capabilities.ClassT2 || !strings.HasPrefix(r.Program, "sha256:") || !slices.Contains(r.Walls, "files") || !slices.Contains(r.Walls, "one door") {
			t.Errorf("%+v, decided for %s", r, decision.Runner)
		}
	}
	if list, _, err := h.Drift.List(ctx(), events.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("%v %+v", err, list)
	}
}

// Another file in the place of a provider's program is another runner (S1-52).
func TestAnotherProgramIsAnotherRunner(t *testing.T) {
	h, n, admin := hosting(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "prog")
	write := func(text string) {
		must(t, os.WriteFile(program+"-new", []byte("#!/bin/bash\n"+text+"\n"), 0o755))
		must(t, os.Rename(program+"-new", program))
	}
	write("echo one")
	manifest, err := json.Marshal(map[string]any{"tools": []any{map[string]any{"name": "say", "argv": []string{program}}}})
	must(t, err)
	body, err := json.Marshal(api.AddProvider{Name: "local", Kind: "command", Host: n.ID, Manifest: string(manifest), Read: []string{dir}})
	must(t, err)
	var p api.Provider
	admin.ok(http.MethodPost, "/v1/providers", string(body), &p)
	approved(t, admin, p, "allow")
	n.AwaitReady("tyrum.local.say")
	runner := func(says string) string {
		r := h.Call(ctx(), "tool.local.say", `{}`, "")
		if want(t, r, capabilities.StatusOK, ""); !strings.Contains(string(r.Output), says) {
			t.Fatalf("%s", r.Output)
		}
		all, err := h.Ledger.Packets(ctx(), ledger.Query{Call: r.Call})
		must(t, err)
		for _, one := range all {
			var end packet.End
			if one.Kind == ledger.KindCallResult {
				must(t, json.Unmarshal(one.Body, &end))
				if len(end.Runners) == 1 {
					return end.Runners[0].Runner
				}
			}
		}
		t.Fatal("no runner is recorded")
		return ""
	}
	first := runner("one")
	if again := runner("one"); again != first {
		t.Errorf("the same program is %s and %s", first, again)
	}
	write("echo two")
	if other := runner("two"); other == first {
		t.Error("another program is the same runner")
	}
}
