package rest_test

import (
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// S1-29, S1-32: what is privileged, or may destroy something, is allowed by no answer that does not
// say that the person knows it, whatever page or script sent it. A denial needs no acknowledgement.
func TestAnAllowAcknowledges(t *testing.T) {
	a := start(t)
	for name, c := range map[string]struct {
		keys, wants []string
		mode        api.Mode
	}{
		"privileged":  {[]string{"data.read.screen", "privileged.input.inject"}, []string{"privileged.input.inject"}, api.ModeElevated},
		"destructive": {[]string{"data.write.workspace", "ui.action.confirm_destructive"}, []string{"ui.action.confirm_destructive"}, api.ModeSafe},
		"calm":        {[]string{"network.egress.http"}, nil, api.ModeConnected},
	} {
		t.Run(name, func(t *testing.T) {
			question := consent.Ask{
				Call: capabilities.CallID(name), Principal: "alice", Tool: "tool.desktop.act", Node: "n1", Lane: "alice", Args: []byte(`{"is":"` + name + `"}`), Keys: c.keys, Longest: consent.KindLease, Snapshot: a.snapshot,
			}
			ask := func() string {
				t.Helper()
				if _, err := a.consent.Await(t.Context(), question); capabilities.AsError(err).Code != capabilities.CodeApprovalPending {
					t.Fatal(err)
				}
				var list struct {
					Approvals []api.Approval `json:"approvals"`
				}
				a.ok(a.operator, "GET", "/v1/approvals", "", &list)
				if len(list.Approvals) != 1 || list.Approvals[0].Surface.Mode != c.mode || !slices.Equal(list.Approvals[0].Surface.Acknowledge, c.wants) {
					t.Fatalf("%+v", list)
				}
				return list.Approvals[0].ID
			}
			id := ask()
			if c.wants != nil {
				a.fails(a.operator, "POST", "/v1/approvals/"+id, `{"answer":"allow"}`, capabilities.CodeAcknowledgementRequired)
				a.fails(a.operator, "POST", "/v1/approvals/"+id, `{"answer":"allow","acknowledged":false}`, capabilities.CodeAcknowledgementRequired)
				a.fails(a.operator, "POST", "/v1/approvals", `{"approvals":["`+id+`"],"answer":"allow"}`, capabilities.CodeAcknowledgementRequired)
			}
			a.ok(a.operator, "POST", "/v1/approvals/"+id, `{"answer":"deny"}`, nil)
			question.Args = []byte(`{"again":"` + name + `"}`)
			id = ask()
			a.ok(a.operator, "POST", "/v1/approvals/"+id, `{"answer":"allow","acknowledged":true}`, nil)
		})
	}
}

func TestApprovals(t *testing.T) {
	a := start(t)
	question := consent.Ask{
		Call: "c1", Principal: "alice", Tool: "tool.desktop.act", Node: "n1", Lane: "alice", Args: []byte(`{}`), Longest: consent.KindLease,
		Snapshot: a.snapshot,
	}
	if _, err := a.consent.Await(t.Context(), question); capabilities.AsError(err).Code != capabilities.CodeApprovalPending {
		t.Fatal(err)
	}
	var list struct {
		Approvals []api.Approval `json:"approvals"`
	}
	a.ok(a.operator, "GET", "/v1/approvals", "", &list)
	if len(list.Approvals) != 1 || list.Approvals[0].Principal != "alice" {
		t.Fatalf("%+v", list)
	}
	at := "/v1/approvals/" + list.Approvals[0].ID
	// Agents never see or answer, not even their own question.
	for _, call := range [][2]string{{"GET", "/v1/approvals"}, {"POST", at}, {"GET", "/v1/grants"}, {"POST", "/v1/grants"}, {"DELETE", "/v1/grants/g-1"}} {
		a.fails(a.agent, call[0], call[1], "", capabilities.CodeForbidden)
	}
	a.fails(a.operator, "POST", at, `{"answer":"perhaps"}`, capabilities.CodeInvalidRequest)
	a.fails(a.operator, "POST", at, `{"answer":"allow","acknowledged":true,"kind":"session"}`, capabilities.CodeForbidden)
	a.ok(a.operator, "POST", at, `{"answer":"allow","acknowledged":true,"kind":"lease","seconds":60,"family":true}`, nil)
	a.fails(a.admin, "POST", at, `{"answer":"deny"}`, capabilities.CodeConflict)
	question.Tool, question.Args = "tool.desktop.mouse", []byte(`{"x":1}`)
	if p, err := a.consent.Await(t.Context(), question); err != nil || p.Kind != consent.KindLease {
		t.Errorf("the family's lease: %+v %v", p, err)
	}
	var grants struct {
		Grants []api.Grant `json:"grants"`
	}
	a.ok(a.operator, "GET", "/v1/grants", "", &grants)
	if len(grants.Grants) != 1 || grants.Grants[0].Approver != "op" || grants.Grants[0].Tools[0] != "tool.desktop.*" {
		t.Fatalf("%+v", grants)
	}
	a.ok(a.operator, "DELETE", "/v1/grants/"+grants.Grants[0].ID, "", nil)
	if _, err := a.consent.Await(t.Context(), question); err == nil {
		t.Error("a revoked grant covers")
	}
	a.fails(a.operator, "POST", "/v1/grants", `{"principal":"alice","tools":["tool.desktop.*"],"node":"nobody"}`, capabilities.CodeNodeNotFound)
	a.fails(a.operator, "DELETE", "/v1/grants/g-1", "", capabilities.CodeNotFound)
}
