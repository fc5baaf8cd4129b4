package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

const personal = `{"tools":[
 {"name":"open","description":"Says who.","argv":["printf","ann@example.com 4111 1111 1111 1111"],"read_only":true},
 {"name":"masked","description":"Says who.","argv":["printf","ann@example.com 4111 1111 1111 1111"],"keys":["data.access.pii_masked"],"read_only":true},
 {"name":"table","description":"Makes a table.","argv":["sh","-c","printf 'who\\nbob@example.com\\n' > \"$1\"","x","{file}"],"params":{"file":{"type":"output","suffix":".csv"}},"output":"file","mime":"text/csv","keys":["data.access.pii_masked","data.retention.extended"]},
 {"name":"film","description":"Makes a film.","argv":["sh","-c","printf x > \"$1\"","x","{file}"],"params":{"file":{"type":"output","suffix":".webm"}},"output":"file","mime":"video/webm","keys":["data.access.pii_masked"]},
 {"name":"short","description":"Makes a table.","argv":["sh","-c","printf 'carol@example.com\\n' > \"$1\"","x","{file}"],"params":{"file":{"type":"output","suffix":".csv"}},"output":"file","mime":"text/csv"}]}`

// S1-17: a call with data.access.pii_masked returns no personal data, its files neither, and
// data.retention.extended keeps its files for longer. The compliance report checks both.
func TestPersonalDataIsMaskedAndFilesAreKept(t *testing.T) {
	h, n, admin := hosting(t)
	body, err := json.Marshal(api.AddProvider{Name: "people", Kind: "command", Host: n.ID, Manifest: personal})
	must(t, err)
	var p api.Provider
	admin.ok(http.MethodPost, "/v1/providers", string(body), &p)
	approved(t, admin, p, "allow")
	h.Await("its tools", func() bool { return h.Call(ctx(), "tool.people.open", `{}`, "").Status == capabilities.StatusOK })
	plain := h.Call(ctx(), "tool.people.open", `{}`, "")
	if !strings.Contains(string(plain.Output), "ann@example.com 4111") {
		t.Errorf("without the key: %+v", plain)
	}
	masked := h.Call(ctx(), "tool.people.masked", `{}`, "")
	if said := string(masked.Output); masked.Status != capabilities.StatusOK || !strings.Contains(said, "[email] [card]") || strings.Contains(said, "ann") {
		t.Errorf("with the key: %+v", masked)
	}
	bodies := h.story(masked.Call).bodys
	if end := string(bodies[len(bodies)-1]); !strings.Contains(end, `"masked":2`) {
		t.Errorf("the record says %s", end)
	}
	kept := func(tool capabilities.ToolID) (api.Artifact, string) {
		t.Helper()
		r := h.Call(ctx(), tool, `{}`, "")
		if r.Status != capabilities.StatusOK || len(r.Artifacts) != 1 {
			t.Fatalf("%s: %+v", tool, r)
		}
		var list struct {
			Artifacts []api.Artifact `json:"artifacts"`
		}
		admin.ok(http.MethodGet, "/v1/artifacts?call="+string(r.Call), "", &list)
		if len(list.Artifacts) != 1 {
			t.Fatalf("%s: %d files are there", tool, len(list.Artifacts))
		}
		status, text := admin.do(http.MethodGet, "/v1/artifacts/"+string(list.Artifacts[0].ID), "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", tool, status, text)
		}
		return list.Artifacts[0], string(text)
	}
	long, text := kept("tool.people.table")
	if text != "who\n[email]\n" || long.Retention != "extended" || long.ExpiresAt.Sub(long.CreatedAt) < 29*24*time.Hour {
		t.Errorf("%q, %+v", text, long)
	}
	if r := h.Call(ctx(), "tool.people.short", `{}`, ""); r.Status != capabilities.StatusOK || len(r.Artifacts) != 0 || len(r.Blobs) != 1 || string(r.Blobs[0].Bytes) != "carol@example.com\n" {
		t.Errorf("without the keys: %+v", r)
	}
	if r := h.Call(ctx(), "tool.people.film", `{}`, ""); r.Code != capabilities.CodeNotSupported || len(r.Artifacts) != 0 {
		t.Errorf("what cannot be masked: %+v", r)
	}
	var report api.Compliance
	admin.ok(http.MethodGet, "/v1/governance/compliance", "", &report)
	checks := map[string]api.ComplianceCheck{}
	for _, c := range report.Checks {
		checks[c.Name] = c
	}
	if c := checks["pii_masked"]; !c.Met || c.Records != 3 || c.Held != 3 {
		t.Errorf("%+v", c)
	}
	if c := checks["retention_extended"]; !c.Met || c.Records != 1 {
		t.Errorf("%+v", c)
	}
	if report.FirstSeq == 0 || report.LastSeq < report.FirstSeq || report.Through < report.LastSeq {
		t.Errorf("of packets %d to %d, counted through %d", report.FirstSeq, report.LastSeq, report.Through)
	}
	_, page := admin.do(http.MethodGet, "/metrics", "")
	for _, want := range []string{`handrail_governance_kpi{kpi="privileged_share"} 0`, `handrail_governance_decisions{effect="allow"}`, `handrail_governance_executions{isolation_class="t1"}`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("/metrics does not say %s", want)
		}
	}
}
