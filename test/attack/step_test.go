package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/site"
)

// stepRules permit the fixture family, but for what a test forbids.
const stepRules = site.Rules + `
@id("no-fail") forbid (principal, action == Action::"tool.fixture.fail", resource);
@id("no-x") forbid (principal, action == Action::"tool.fixture.press", resource) when { context.args has text && context.args.text == "x" };
`

type obj map[string]any

func step(tool capabilities.ToolID, args obj) obj {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return obj{"tool": tool, "args": string(text)}
}

func steps(list ...obj) obj { return obj{"text": "parent", "steps": list} }

// conduct has an agent make a call that takes steps.
func (a *arena) conduct(ctx context.Context, args obj) capabilities.Result {
	text, err := json.Marshal(args)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.Dispatcher.Call(ctx, dispatch.Request{Caller: caller("agent", "main"), Tool: site.ToolConduct, Args: text, Surface: "test"})
}

func codesOf(t *testing.T, r capabilities.Result) []string {
	t.Helper()
	var out struct {
		Codes []string `json:"codes"`
	}
	if r.Status != capabilities.StatusOK {
		t.Fatalf("%s %s %s", r.Status, r.Code, r.Message)
	}
	if err := json.Unmarshal(r.Output, &out); err != nil {
		t.Fatal(err)
	}
	return out.Codes
}

// packets returns those of the steps of a call, by step.
func (a *arena) packets(parent capabilities.CallID) map[uint32][]ledger.Packet {
	a.t.Helper()
	calls := map[capabilities.CallID]uint32{}
	out := map[uint32][]ledger.Packet{}
	err := a.Ledger.Since(context.Background(), 0, func(p *ledger.Packet) error {
		var body struct {
			Parent capabilities.CallID `json:"parent_call_id"`
			Step   uint32              `json:"step"`
		}
		if err := json.Unmarshal(p.Body, &body); err != nil {
			return err
		}
		if body.Parent != parent {
			return nil
		}
		if p.Kind == ledger.KindCallRequest {
			calls[p.Call] = body.Step
		}
		n := calls[p.Call]
		out[n] = append(out[n], *p)
		return nil
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

func kinds(list []ledger.Packet) (all []string) {
	for _, p := range list {
		all = append(all, strings.TrimPrefix(string(p.Kind), "tool.call."))
	}
	return all
}

// A call that policy forbids is forbidden as a step, arguments included, and each step stands in
// the ledger under its parent before it runs.
func TestStepsAreJudged(t *testing.T) {
	a := enter(t, site.Options{Rules: stepRules})
	r := a.conduct(t.Context(), steps(
		step(site.ToolEcho, obj{"text": "one"}),
		step(site.ToolFail, obj{"text": "forbidden", "code": "internal"}),
		step(site.ToolEcho, obj{"text": "two"}),
		step(site.ToolEcho, obj{"txt": "no such argument"}),
		step(site.ToolEcho, obj{"text": "elsewhere", "node_id": string(a.node.ID)}),
		step(site.ToolConduct, obj{"text": "nested", "steps": []obj{}}),
		step(site.ToolPress, obj{"text": "x"}),
		step("tool.node.list", obj{}),
	))
	want := []string{"ok", "denied_by_policy", "ok", "invalid_arguments", "invalid_arguments", "unknown_tool", "denied_by_policy", "unknown_tool"}
	if got := codesOf(t, r); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if a.h.Runs("one") != 1 || a.h.Runs("two") != 1 || a.h.Runs("forbidden")+a.h.Runs("x")+a.h.Runs("nested")+a.h.Runs("elsewhere") != 0 {
		t.Error("something else ran than what was allowed")
	}
	all := a.packets(r.Call)
	if got := kinds(all[1]); !slices.Equal(got, []string{"request", "decision", "dispatch", "result"}) {
		t.Errorf("the first step's packets: %v", got)
	}
	if got := kinds(all[2]); !slices.Equal(got, []string{"request", "decision", "failed"}) {
		t.Errorf("the refused step's packets: %v", got)
	}
	for n, list := range all {
		for _, p := range list {
			if p.Principal != "agent" || p.Lane != "main" || n <= 2 && p.Node != a.node.ID || strings.Contains(string(p.Body), "forbidden") {
				t.Errorf("step %d: %+v %s", n, p, p.Body)
			}
		}
	}
}

// The list of calls has steps below their call only, each with its outcome.
func TestStepsAreListedUnderTheirCall(t *testing.T) {
	a := enter(t, site.Options{Rules: stepRules})
	r := a.conduct(t.Context(), steps(step(site.ToolEcho, obj{"text": "one"}), step(site.ToolFail, obj{"text": "two", "code": "internal"})))
	codesOf(t, r)
	type view struct {
		Call    capabilities.CallID `json:"call_id"`
		Parent  capabilities.CallID `json:"parent_call_id"`
		Step    int                 `json:"step"`
		Outcome string              `json:"outcome"`
	}
	list := func(query string) (out []view) {
		_, body := a.do(a.operator, "GET", "/v1/calls"+query, "")
		var page struct {
			Calls []view `json:"calls"`
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err, body)
		}
		return page.Calls
	}
	if all := list("?principal=agent"); len(all) != 1 || all[0].Call != r.Call || all[0].Parent != "" {
		t.Errorf("all calls: %+v", all)
	}
	under := list("?parent=" + string(r.Call))
	if len(under) != 2 || under[0].Step != 2 || under[0].Outcome != "denied" || under[1].Step != 1 || under[1].Outcome != "done" || under[0].Parent != r.Call {
		t.Errorf("its steps: %+v", under)
	}
	if status, _ := a.do(a.operator, "GET", "/v1/calls?parent=a%22b", ""); status != 400 {
		t.Errorf("a name that is none: %d", status)
	}
}

// A step that policy asks about waits for its answer within the parent's time.
func TestStepsAsk(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Minute})
	pressed := func(within int) <-chan capabilities.Result {
		done := make(chan capabilities.Result, 1)
		args := steps(step(site.ToolEcho, obj{"text": "before"}), step(site.ToolPress, obj{"text": "asked"}), step(site.ToolEcho, obj{"text": "after"}))
		args["timeout_ms"] = within
		go func() { done <- a.conduct(context.Background(), args) }()
		return done
	}
	done := pressed(60_000)
	q := a.waiting()
	if q.Tool != site.ToolPress || a.h.Runs("asked") != 0 {
		t.Fatalf("%+v", q)
	}
	if _, err := a.Consent.Answer(t.Context(), q.ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if got := codesOf(t, <-done); !slices.Equal(got, []string{"ok", "ok", "ok"}) || a.h.Runs("asked") != 1 {
		t.Errorf("allowed: %v", got)
	}

	// Nobody answers: the parent ends with it, and says so itself.
	r := <-pressed(1500)
	if r.Status != capabilities.StatusPending || r.Code != capabilities.CodeApprovalPending || a.h.Runs("asked") != 1 || a.h.Runs("after") != 1 || a.h.Runs("before") != 2 {
		t.Errorf("nobody answered: %s %s, ran %d %d %d", r.Status, r.Code, a.h.Runs("before"), a.h.Runs("asked"), a.h.Runs("after"))
	}
	all := a.packets(r.Call)
	if got := kinds(all[2]); !slices.Equal(got, []string{"request", "decision", "pending_approval"}) {
		t.Errorf("the packets of the step that waits: %v", got)
	}

	// A late no ends it for the next.
	if _, err := a.Consent.Answer(t.Context(), a.waiting().ID, consent.Answer{By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if got := codesOf(t, <-pressed(60_000)); !slices.Equal(got, []string{"ok", "consent_denied", "ok"}) || a.h.Runs("asked") != 1 {
		t.Errorf("denied: %v", got)
	}
}

// Steps at once are each judged, and none runs unrecorded.
func TestStepsAtOnce(t *testing.T) {
	a := enter(t, site.Options{Rules: stepRules})
	var list []obj
	for i := range 24 {
		if list = append(list, step(site.ToolEcho, obj{"text": fmt.Sprint("p", i)})); i%3 == 0 {
			list[i] = step(site.ToolFail, obj{"text": fmt.Sprint("f", i), "code": "internal"})
		}
	}
	args := steps(list...)
	args["parallel"] = true
	r := a.conduct(t.Context(), args)
	ran := 0
	for i, code := range codesOf(t, r) {
		switch {
		case i%3 == 0 && code != "denied_by_policy" && code != "overloaded", i%3 != 0 && code != "ok" && code != "overloaded":
			t.Errorf("step %d: %s", i, code)
		case code == "ok":
			ran++
		}
		if i%3 == 0 && a.h.Runs(fmt.Sprint("f", i)) != 0 {
			t.Errorf("step %d ran although it is forbidden", i)
		}
	}
	recorded := 0
	for _, list := range a.packets(r.Call) {
		if got := kinds(list); slices.Contains(got, "result") {
			recorded++
		}
	}
	if ran == 0 || recorded != ran {
		t.Errorf("%d ran, %d are recorded", ran, recorded)
	}
}

// A stop in the middle ends the step that runs, and no other is taken.
func TestStepsStop(t *testing.T) {
	a := enter(t, site.Options{})
	done := make(chan capabilities.Result, 1)
	go func() {
		done <- a.conduct(context.Background(), steps(step(site.ToolSlow, obj{"text": "slow"}), step(site.ToolEcho, obj{"text": "after"})))
	}()
	for a.h.Runs("slow") == 0 {
		a.h.AwaitStart(site.Within)
	}
	if _, body := a.do(a.operator, "POST", "/v1/stop", `{}`); !strings.Contains(body, "stopped") {
		t.Fatal(body)
	}
	if r := <-done; r.Code != capabilities.CodeStopped || a.h.Runs("after") != 0 {
		t.Errorf("%s, the step after it ran %d times", r.Code, a.h.Runs("after"))
	}
}

// A grant for a call is needed for each of its steps: taken back in the middle, no further step is
// taken.
func TestStepsUnderARevokedGrant(t *testing.T) {
	a := enter(t, site.Options{Rules: site.Rules + `
		@id("asks") forbid (principal, action in [Action::"tool.fixture.conduct", Action::"tool.fixture.echo"], resource) unless { context.consent };`})
	grant := func(tool capabilities.ToolID) string {
		g, err := a.Consent.Grant(t.Context(), consent.Spec{Principal: "agent", Tools: []string{string(tool)}, Node: a.node.ID, Lane: "main", Approver: "anna"})
		if err != nil {
			t.Fatal(err)
		}
		return g.ID
	}
	for _, of := range []capabilities.ToolID{site.ToolConduct, site.ToolEcho} {
		ids := map[capabilities.ToolID]string{site.ToolConduct: grant(site.ToolConduct), site.ToolEcho: grant(site.ToolEcho)}
		text := "gate of " + string(of)
		done := make(chan capabilities.Result, 1)
		go func() {
			done <- a.conduct(context.Background(), steps(step(site.ToolEcho, obj{"text": "with " + text}), step(site.ToolSlow, obj{"text": text}), step(site.ToolEcho, obj{"text": "without " + text})))
		}()
		for a.h.Runs(text) == 0 {
			a.h.AwaitStart(site.Within)
		}
		if err := a.Consent.Revoke(t.Context(), ids[of], "anna"); err != nil {
			t.Fatal(err)
		}
		a.h.Finish(text)
		got := codesOf(t, <-done)
		if got[0] != "ok" || got[2] == "ok" || a.h.Runs("with "+text) != 1 || a.h.Runs("without "+text) != 0 {
			t.Errorf("%s revoked: %v", of, got)
		}
		for _, id := range ids {
			_ = a.Consent.Revoke(t.Context(), id, "anna")
		}
	}
}

// The question about a step carries what the caller said the whole call is for, and is
// closed when nobody waits for the answer any more.
func TestAStepsQuestionEndsWithItsCall(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Minute})
	args := steps(step(site.ToolPress, obj{"text": "asked"}))
	args["purpose"] = "to press once"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan capabilities.Result, 1)
	go func() { done <- a.conduct(ctx, args) }()
	q := a.waiting()
	if told, ok := a.Consent.Told(q.ID, true); !ok || told.Purpose != "to press once" || q.Tool != site.ToolPress {
		t.Errorf("%+v %+v", q, told)
	}
	cancel()
	if r := <-done; r.Code != capabilities.CodeCancelled {
		t.Errorf("%s", r.Code)
	}
	for end := time.Now().Add(site.Within); len(a.Consent.Approvals()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the question outlived its call")
		}
	}
	if a.h.Runs("asked") != 0 {
		t.Error("it ran")
	}
}
