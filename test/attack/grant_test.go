package attack

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/test/site"
)

// pages stands for one tool of a browser, and counts its calls.
type pages struct {
	tool  capabilities.CapabilityID
	class capabilities.IsolationClass
	runs  atomic.Int64
}

func (b *pages) Capabilities() []capabilities.CapabilityID {
	return []capabilities.CapabilityID{b.tool}
}

func (b *pages) Readiness(context.Context) []capabilities.Readiness {
	return []capabilities.Readiness{{Capability: b.tool, Isolation: b.class, Backend: "fixture"}}
}

func (b *pages) Handle(context.Context, capabilities.Invocation) (capabilities.Output, error) {
	b.runs.Add(1)
	result := map[string]any{"uploaded": 1}
	if b.tool != "tyrum.browser.upload-file" {
		result = map[string]any{}
	}
	return capabilities.Output{Result: result, Effect: capabilities.EffectConfirmed}, nil
}

// CloseLane has nothing to free.
func (*pages) CloseLane(capabilities.LaneID) {}

// Close has nothing to end.
func (*pages) Close() error { return nil }

// A grant made ahead of any call gives no more than an answer would: nobody grants
// themselves, whatever they may grant others.
func TestNobodyGrantsThemselves(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	grant := func(who, tool string) (int, string) {
		return a.do(a.operator, "POST", "/v1/grants", fmt.Sprintf(`{"principal":%q,"tools":[%q],"node":%q}`, who, tool, a.node.ID))
	}
	call := func(text string) {
		a.do(a.operator, "POST", "/v1/calls", fmt.Sprintf(`{"tool":%q,"args":{"text":%q}}`, site.ToolPress, text))
	}
	for _, tool := range []string{"tool.fixture.press", "tool.fixture.*"} {
		if status, answer := grant("anna", tool); status != 403 || !strings.Contains(answer, `"forbidden"`) {
			t.Errorf("%s: %d %s", tool, status, answer)
		}
		if call(tool); a.h.Runs(tool) != 0 {
			t.Errorf("%s: it ran", tool)
		}
	}
	if n := len(a.Consent.Grants()); n != 0 {
		t.Errorf("%d grants", n)
	}
	// The control: the same for somebody else.
	if status, answer := grant("agent", "tool.fixture.press"); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if r := a.press(caller("agent", "agent"), `{"text":"benign"}`); r.Status != capabilities.StatusOK || a.h.Runs("benign") != 1 {
		t.Errorf("the control: %+v", r)
	}
}

// No grant that lasts covers a tool that a person is asked about at each call: not by its name, not
// by its family, and not by an answer to another question of the family.
func TestACallBoundToolIsNeverLeased(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	up := &pages{tool: "tyrum.browser.upload-file", class: capabilities.ClassSession}
	desk := a.AddNode("uploads", up)
	give := func(path string) capabilities.Result {
		return a.Dispatcher.Call(context.Background(), dispatch.Request{
			Caller: caller("agent", "agent"), Tool: "tool.browser.upload-file", Args: fmt.Appendf(nil, `{"selector":"#file","paths":[%q],"node_id":%q}`, path, desk.ID), Surface: "test",
		})
	}
	for _, tools := range []string{`"tool.browser.upload-file"`, `"tool.browser.upload-file","tool.browser.click"`, `"tool.secret.*"`, `"tool.secret.copy-to-node-clipboard"`} {
		status, answer := a.do(a.operator, "POST", "/v1/grants", fmt.Sprintf(`{"principal":"agent","tools":[%s],"node":%q,"seconds":3600}`, tools, desk.ID))
		if status != 403 || !strings.Contains(answer, "once only") {
			t.Errorf("%s: %d %s", tools, status, answer)
		}
	}
	// The family may be leased: for the rest of it.
	if status, answer := a.do(a.operator, "POST", "/v1/grants", fmt.Sprintf(`{"principal":"agent","tools":["tool.browser.*"],"node":%q,"any_lane":true}`, desk.ID)); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	for _, path := range []string{"/srv/one", "/srv/two"} {
		if r := give(path); r.Code != capabilities.CodeApprovalPending || up.runs.Load() != 0 {
			t.Errorf("%s: %+v, given %d times", path, r, up.runs.Load())
		}
	}
	all := a.Consent.Approvals()
	if len(all) != 2 {
		t.Fatalf("%d questions", len(all))
	}
	for _, answer := range []consent.Answer{{Kind: consent.KindLease}, {Kind: consent.KindLease, Family: true}, {Kind: consent.KindSession}, {Kind: consent.KindAlways}} {
		answer.Allow, answer.By = true, "anna"
		if _, err := a.Consent.Answer(t.Context(), all[0].ID, answer); capabilities.CodeOf(err) != capabilities.CodeForbidden {
			t.Errorf("%+v: %v", answer, err)
		}
	}
	// The control: a yes for exactly this call is good for exactly this call.
	if _, err := a.Consent.Answer(t.Context(), all[0].ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if r := give("/srv/one"); r.Status != capabilities.StatusOK || up.runs.Load() != 1 {
		t.Errorf("the control: %+v, given %d times", r, up.runs.Load())
	}
	for _, path := range []string{"/srv/one", "/srv/two"} {
		if r := give(path); r.Code != capabilities.CodeApprovalPending || up.runs.Load() != 1 {
			t.Errorf("again %s: %+v, given %d times", path, r, up.runs.Load())
		}
	}
}

// An agent in the person's own Chrome is hands on that device: it could press the
// console's buttons, where the person is signed in. In a Chrome of its own it is not.
func TestAnAttachedBrowserIsHands(t *testing.T) {
	t.Parallel()
	const click = "tyrum.browser.click"
	for _, c := range []struct {
		what  string
		class capabilities.IsolationClass
		rules string // beside the fixture's
		lent  bool
		held  bool
	}{
		{"lent, in the person's Chrome", capabilities.ClassSession, "", true, true},
		{"lent, in its own", capabilities.ClassT2, "", true, false},
		{"used by a rule, in the person's Chrome", capabilities.ClassSession, `@id("open") permit (principal, action == Action::"tool.browser.click", resource);`, false, true},
		{"used by a rule, in its own", capabilities.ClassT2, "", false, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			a := enter(t, site.Options{ApprovalWait: time.Millisecond, Rules: site.Rules + c.rules})
			chrome := &pages{tool: click, class: c.class}
			desk := a.AddNode("chrome", chrome)
			if r := a.press(caller("agent", "agent"), fmt.Sprintf(`{"text":"wanted","node_id":%q}`, a.node.ID)); r.Code != capabilities.CodeApprovalPending {
				t.Fatalf("%+v", r)
			}
			question := a.waiting().ID
			if c.lent {
				a.Grant("agent", desk, "tool.browser.*")
			}
			r := a.Dispatcher.Call(context.Background(), dispatch.Request{
				Caller: caller("agent", "agent"), Tool: "tool.browser.click", Args: fmt.Appendf(nil, `{"selector":"#allow","node_id":%q}`, desk.ID), Surface: "test",
			})
			if r.Status != capabilities.StatusOK || chrome.runs.Load() != 1 {
				t.Fatalf("the click: %+v", r)
			}
			want := 200
			if c.held {
				want = 403
			}
			status, answer := a.do(a.operator, "POST", "/v1/approvals/"+question, `{"answer":"allow","acknowledged":true}`)
			if status != want || c.held != strings.Contains(answer, `"hands_elsewhere"`) {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
}
