package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/principal"
)

// Making the heaviest pages, beside what the REST surface takes: a full list of packets, of
// calls and of questions.
func BenchmarkPages(b *testing.B) {
	c, err := New(Options{API: crowded{}, Sessions: noSessions{}, Passkeys: noPasskeysKept{}})
	if err != nil {
		b.Fatal(err)
	}
	for name, page := range map[string]func(*visit){"ledger": c.ledgerPage, "calls": c.callsPage, "approvals": c.approvals} {
		b.Run(name, func(b *testing.B) {
			var w *httptest.ResponseRecorder
			for b.Loop() {
				w = httptest.NewRecorder()
				page(&visit{w: w, r: httptest.NewRequest(http.MethodGet, "/console/"+name, nil), who: principal.Identity{Principal: "ann", Role: principal.RoleAdmin}, csrf: "value", con: c})
			}
			if w.Code != http.StatusOK {
				b.Fatal(w.Body)
			}
			b.ReportMetric(float64(w.Body.Len()), "bytes")
		})
	}
}

// crowded is a REST surface with full lists.
type crowded struct{ offering }

func (crowded) Offers(principal.Identity, string) bool { return true }

func (crowded) Ask(_ *http.Request, _, target string, _, out any) error {
	one, list := "", ""
	switch {
	case strings.HasPrefix(target, "/v1/ledger/packets?kind"):
		return nil
	case strings.HasPrefix(target, "/v1/ledger/packets"):
		list, one = "packets", `{"seq":1,"time_us":1700000000000000,"kind":"tool.call.request","call_id":"c1","tool_id":"tool.browser.navigate","principal":"agent","body":{"surface":"mcp","evidence":{"url":"https://example.com/","text":"some words of a page"},"args_digest":"61612c855ff86ae06a6a2f9e5821055f4604ca0c3960d94f715b990cd3f7e947"}}`
	case strings.HasPrefix(target, "/v1/calls"):
		list, one = "calls", `{"call_id":"c1","tool_id":"tool.browser.navigate","principal":"agent","lane":"lane","node_id":"n1","node_label":"kitchen","outcome":"done","duration_ms":12,"started_at":"2026-01-01T00:00:00Z","phrase":"opened example.com"}`
	case strings.HasPrefix(target, "/v1/approvals"):
		list, one = "approvals", `{"approval":"q1","state":"pending","principal":"agent","tool":"tool.desktop.act","title":"Act","node":"n1","lane":"lane","risk":"high","capabilities":["privileged.input.inject"],"longest":"lease","choices":[{"kind":"call"},{"kind":"lease","seconds":300}],"created_at":"2026-01-01T00:00:00Z","expires_at":"2026-01-01T00:01:00Z","question":{"does":"types 36 characters","fields":[{"name":"text","text":"some words that are typed"}]}}`
	}
	if list == "" {
		return nil
	}
	all := make([]string, 50)
	for i := range all {
		all[i] = strings.ReplaceAll(one, `"q1"`, fmt.Sprintf("\"q%d\"", i))
	}
	return json.Unmarshal(fmt.Appendf(nil, `{%q:[%s]}`, list, strings.Join(all, ",")), out)
}
