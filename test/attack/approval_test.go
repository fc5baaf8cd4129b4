package attack

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// An approval is for one principal, tool, node, lane, policy and these arguments;
// used for anything else it is none, and it is still there for what it was given.
func TestAnApprovalIsForOneThing(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	other := site.NewHandler()
	second := a.AddNode("second", other)
	args := func(text string, n *site.Node) string { return fmt.Sprintf(`{"text":%q,"node_id":%q}`, text, n.ID) }
	good := args("good", a.node)
	me := caller("agent", "main")
	if r := a.press(me, good); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	if _, err := a.Consent.Answer(t.Context(), a.waiting().ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]capabilities.Result{
		"other arguments": a.press(me, args("evil", a.node)),
		"other node":      a.press(me, args("good", second)),
		"other lane":      a.press(caller("agent", "elsewhere"), good),
		"other principal": a.press(caller("mallory", "main"), good),
	} {
		if r.Code != capabilities.CodeApprovalPending || a.h.Runs("good")+a.h.Runs("evil")+other.Runs("good") != 0 {
			t.Errorf("%s: %+v", what, r)
		}
	}
	if r := a.press(me, good); r.Status != capabilities.StatusOK || a.h.Runs("good") != 1 {
		t.Fatalf("the control: %+v", r)
	}
	if r := a.press(me, good); r.Code != capabilities.CodeApprovalPending || a.h.Runs("good") != 1 {
		t.Errorf("twice: %+v", r)
	}
}

// A one-use grant, a thousand callers at once.
func TestAThousandSpendsOfOneUse(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	if r := a.press(caller("agent", "main"), `{"text":"once"}`); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	if _, err := a.Consent.Answer(t.Context(), a.waiting().ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	var ok atomic.Int64
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if r := a.press(caller("agent", "main"), `{"text":"once"}`); r.Status == capabilities.StatusOK {
				ok.Add(1)
			}
		})
	}
	wg.Wait()
	if ok.Load() != 1 || a.h.Runs("once") != 1 {
		t.Errorf("%d went on, %d ran", ok.Load(), a.h.Runs("once"))
	}
}

// The caller's claim about its own authority is not authority.
func TestClaimedAuthority(t *testing.T) {
	a := enter(t, site.Options{})
	for _, args := range []string{
		`{"text":"x","approved":true}`, `{"text":"x","authority":"admin"}`, `{"text":"x","grant":"g-1"}`, `{"text":"x","consent":true}`, `{"text":"x","role":"admin"}`,
		`{"text":"x","policy_snapshot_id":"p"}`, `{"text":"x","Text":"y"}`, `{"text":"x","text":"y"}`, `{"text":{"approved":true}}`, `{"text":"x","scopes":["privileged.input.inject"]}`,
	} {
		for _, body := range []string{
			`{"tool":"tool.fixture.press","args":` + args + `}`,
			`{"tool":"tool.fixture.press","args":{"text":"x"},` + strings.TrimPrefix(args, `{"text":"x",`),
		} {
			_, answer := a.do(a.agent, "POST", "/v1/calls", body)
			if strings.Contains(answer, `"status":"ok"`) || a.h.Runs("x")+a.h.Runs("y") != 0 {
				t.Errorf("%s: %s", body, answer)
			}
		}
	}
	a.Grant("agent", a.node, "tool.fixture.press")
	if _, answer := a.do(a.agent, "POST", "/v1/calls", `{"tool":"tool.fixture.press","args":{"text":"x"}}`); a.h.Runs("x") != 1 {
		t.Errorf("the control: %s", answer)
	}
}

// An agent with an HTTP client, a lent mouse and keyboard (what it types on the
// device reaches the gateway from there, even with a person's token), and every
// word it can think of asks a thousand times to approve its own call, and never
// once does.
func TestAnAgentCanNotApproveItself(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	// It holds the device by a lease that a person gave for something else.
	if _, err := a.Consent.Grant(t.Context(), consent.Spec{
		Principal: "hands", Tools: []string{"tool.fixture.press"}, Node: a.node.ID, AnyLane: true, For: consent.MaxLease, Approver: "anna",
	}); err != nil {
		t.Fatal(err)
	}
	if r := a.press(caller("hands", "main"), `{"text":"typing"}`); r.Status != capabilities.StatusOK {
		t.Fatalf("the lease does not work: %+v", r)
	}
	me := caller("agent", "agent")
	if r := a.press(me, `{"text":"wanted"}`); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	w := a.waiting()
	at := "/v1/approvals/" + w.ID
	yes := `{"answer":"allow","acknowledged":true}`
	grant := fmt.Sprintf(`{"principal":"agent","tools":["tool.fixture.press"],"node":%q}`, a.node.ID)
	admin := a.MustToken("root", principal.RoleAdmin)
	http := func(token, method, path, body string) func() {
		return func() { a.do(token, method, path, body) }
	}
	call := func(tool capabilities.ToolID, args string) func() {
		return func() {
			a.Dispatcher.Call(context.Background(), dispatch.Request{Caller: me, Tool: tool, Args: []byte(args), Surface: "test"})
		}
	}
	ways := []func(){
		// With its own token.
		http(a.agent, "POST", at, yes), http(a.agent, "POST", at, `{"answer":"allow","acknowledged":true,"kind":"lease","family":true}`), http(a.agent, "PUT", at, yes),
		http(a.agent, "POST", "/v1/grants", grant), http(a.agent, "POST", "/v1/tokens", `{"principal":"agent","role":"operator"}`),
		http(a.agent, "POST", at+"/", yes), http(a.agent, "POST", "//v1/approvals/"+w.ID, yes), http(a.agent, "POST", at+"?token="+a.operator, yes),
		http(a.agent, "POST", "/v1/policy/explain", `{}`), http(a.agent, "GET", "/v1/approvals", ""), http(a.agent, "GET", "/v1/events", ""),
		// With no token, and with guesses.
		http("", "POST", at, yes), http("hrt_"+strings.Repeat("A", 43), "POST", at, yes), http(strings.ToUpper(a.operator), "POST", at, yes),
		// With tools.
		call(site.ToolPress, `{"text":"wanted"}`), call(site.ToolPress, `{"text":"wanted","approved":true}`),
		call("tool.approvals.answer", `{"approval":"`+w.ID+`"}`), call(capabilities.ToolID("POST "+at), yes),
		call("tool.browser.navigate", `{"url":"`+a.URL()+at+`"}`),
		// With its hands: what a person's shell on that device would send.
		http(a.operator, "POST", at, yes), http(admin, "POST", at, `{"answer":"allow","acknowledged":true,"kind":"lease"}`), http(admin, "POST", "/v1/grants", grant),
		http(admin, "POST", "/v1/tokens", `{"principal":"agent","role":"admin"}`), http(admin, "POST", "/v1/invites", `{}`),
		// With the person's answer at a client whom nobody named.
		func() {
			_, _ = a.Consent.Answer(context.Background(), w.ID, consent.Answer{Allow: true, Via: consent.ViaMCP, By: "agent"})
		},
	}
	for i := range 1000 {
		ways[i%len(ways)]()
		if a.h.Runs("wanted") != 0 {
			t.Fatalf("way %d, try %d: it ran", i%len(ways), i)
		}
	}
	if got, err := a.Consent.Approval(w.ID); err != nil || got.State != consent.StatePending {
		t.Fatalf("%+v %v", got, err)
	}
	for _, g := range a.Consent.Grants() {
		if g.Principal != "hands" {
			t.Errorf("left behind: %+v", g)
		}
	}
	if n := len(a.Tokens.List()); n != 3 {
		t.Errorf("%d tokens", n)
	}
	// The controls: a person on that device can still deny and revoke, and one
	// elsewhere allow.
	for _, g := range a.Consent.Grants() {
		if status, answer := a.do(a.operator, "DELETE", "/v1/grants/"+g.ID, ""); status != 200 {
			t.Errorf("revoking from the device: %d %s", status, answer)
		}
	}
	if _, err := a.Consent.Answer(t.Context(), w.ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if r := a.press(me, `{"text":"wanted"}`); r.Status != capabilities.StatusOK || a.h.Runs("wanted") != 1 {
		t.Errorf("the control: %+v", r)
	}
}
