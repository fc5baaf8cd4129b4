package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/test/site"
)

// offers is an MCP server on its standard streams with those tools, which do nothing.
const offers = `while read -r line; do
[[ $line =~ \"id\":([0-9]+) ]] || continue
case $line in
*'"method":"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"offers","version":"1"}}' ;;
*'"method":"tools/list"'*) r='{"tools":[%s]}' ;;
*) r='{}' ;;
esac
printf '{"jsonrpc":"2.0","id":%%s,"result":%%s}\n' "${BASH_REMATCH[1]}" "$r"
done
`

// A device that somebody took over says of its calls what it likes, of whatever kind their tool is:
// that they reached a host, wrote a file or read a secret, or ran below their class. The gateway
// holds each word against the grants of the call: the first two are recorded as violations; the
// others void the result and restrict the tool (S1-02, S1-44 to S1-46, S1-48 to S1-53).
func TestALyingDeviceIsCaughtByEachKindOfTool(t *testing.T) {
	h, n, admin := hosting(t)
	h.Drifts = true
	signals := []string{"network", "write", "secret", "isolation"}
	var commands, servers, paths, steps []string
	for _, s := range signals {
		for _, name := range []string{s, "step-" + s} {
			commands = append(commands, fmt.Sprintf(`{"name":%q,"description":"Does nothing.","argv":["true"],"read_only":true}`, name))
		}
		servers = append(servers, fmt.Sprintf(`{"name":%q,"description":"Does nothing.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, s))
		paths = append(paths, fmt.Sprintf(`"/%s":{"get":{"operationId":%q,"summary":"Does nothing.","responses":{"200":{"description":"Nothing."}}}}`, s, s))
		steps = append(steps, s)
	}
	document := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"openapi":"3.1.0","info":{"title":"Nothing","version":"1"},"servers":[{"url":"/"}],"paths":{`+strings.Join(paths, ",")+`}}`)
	}))
	t.Cleanup(document.Close)
	script := filepath.Join(privateDir(t), "offers.sh")
	must(t, os.WriteFile(script, fmt.Appendf(nil, offers, strings.Join(servers, ",")), 0o644))
	add := func(p api.AddProvider) {
		t.Helper()
		body, err := json.Marshal(p)
		must(t, err)
		var added api.Provider
		admin.ok(http.MethodPost, "/v1/providers", string(body), &added)
		approved(t, admin, added, "allow")
	}
	add(api.AddProvider{Name: "cmd", Kind: "command", Host: n.ID, Manifest: `{"tools":[` + strings.Join(commands, ",") + `]}`, Read: []string{filepath.Dir(script)}})
	add(api.AddProvider{Name: "server", Kind: "mcp", Host: n.ID, Command: []string{"bash", script}, Read: []string{filepath.Dir(script)}})
	add(api.AddProvider{Name: "shop", Kind: "openapi", Host: n.ID, URL: document.URL + "/openapi.json"})
	for _, s := range steps {
		add(api.AddProvider{Name: "macro-" + s, Kind: "macro", Manifest: "description: Takes a step.\nsteps:\n  - {id: a, tool: tool.cmd.step-" + s + ", with: {}}\n"})
	}
	n.AwaitReady("tyrum.cmd.network", "tyrum.server.network", "tyrum.shop.network")
	h.Grant("agent", n, string(site.ToolPress))

	n.Lie(func(ticket *wire.Ticket) wire.Answer {
		a := wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"text":"done"}`), Isolation: capabilities.ClassT2, Effect: capabilities.EffectConfirmed}
		see := func(key, detail string) {
			a.Observed = append(a.Observed, wire.Observation{Key: key, Detail: detail, Count: 1})
		}
		what := string(ticket.Tool) + string(ticket.Args)
		switch {
		case ticket.Tool.Family() == "provider": // what the host is told, which names tools
		case strings.Contains(what, "network"):
			see("network.ingress.webhook", "evil.example:443")
		case strings.Contains(what, "write"):
			see(capabilities.KeyWrite, "/etc/cron.d/own")
		case strings.Contains(what, "secret"):
			see(capabilities.KeySecret, "prod-database")
		case strings.Contains(what, "isolation"):
			a.Isolation = capabilities.ClassT0
		}
		return a
	})
	for _, kind := range []struct {
		name string
		call func(signal string) (tool capabilities.ToolID, args string)
		by   func(signal string) capabilities.ToolID // nil: the tool itself
	}{
		{"a command", func(s string) (capabilities.ToolID, string) { return capabilities.ToolID("tool.cmd." + s), `{}` }, nil},
		{"an MCP server", func(s string) (capabilities.ToolID, string) { return capabilities.ToolID("tool.server." + s), `{}` }, nil},
		{"an OpenAPI client", func(s string) (capabilities.ToolID, string) { return capabilities.ToolID("tool.shop." + s), `{}` }, nil},
		{"a macro's step", func(s string) (capabilities.ToolID, string) {
			return capabilities.ToolID("tool.macro.macro-" + s), `{}`
		}, func(s string) capabilities.ToolID { return capabilities.ToolID("tool.cmd.step-" + s) }},
		{"built in", func(s string) (capabilities.ToolID, string) {
			return map[string]capabilities.ToolID{"network": site.ToolEcho, "write": site.ToolSlow, "secret": site.ToolEcho, "isolation": site.ToolPress}[s], text(s)
		}, nil},
	} {
		for _, signal := range signals {
			h.lift() // a step's runner is that of the command
			tool, args := kind.call(signal)
			by := tool
			if kind.by != nil {
				by = kind.by(signal)
			}
			before, _, err := h.Drift.List(ctx(), events.Filter{Tool: by})
			must(t, err)
			r := h.Call(ctx(), tool, args, "")
			list, _, err := h.Drift.List(ctx(), events.Filter{Tool: by})
			must(t, err)
			if len(list) != len(before)+1 {
				t.Errorf("%s, %s: %d events after %d: %s %s", kind.name, signal, len(list), len(before), r.Code, r.Message)
				continue
			}
			e := list[0]
			severity := drift.Violation
			if signal == "secret" || signal == "isolation" {
				severity = drift.Critical
				if r.Status == capabilities.StatusOK || strings.Contains(string(r.Output), "done") {
					t.Errorf("%s, %s: the result counts: %s", kind.name, signal, r.Output)
				}
				if by == tool {
					want(t, r, capabilities.StatusError, capabilities.CodeDriftCritical)
					want(t, h.Call(ctx(), tool, args, ""), capabilities.StatusDenied, capabilities.CodeToolRestricted)
				}
			}
			if e.Signal.String() != signal || e.Severity != severity || (by == tool) != (e.Call == r.Call) || e.Runner == "" {
				t.Errorf("%s, %s: %+v", kind.name, signal, e)
			}
		}
	}
}
