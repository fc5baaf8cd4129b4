package attack

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/task"
	"github.com/handrail-dev/handrail/test/site"
)

// tasks waits until the one task is in that state.
func (a *arena) task(state task.State) task.Task {
	a.t.Helper()
	var last []task.Task
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		all, err := a.Tasks.Tasks(context.Background(), "")
		if err != nil {
			a.t.Fatal(err)
		}
		if last = all; len(all) == 1 && all[0].State == state {
			return all[0]
		}
	}
	a.t.Fatalf("slow: no task is %s: %+v", state, last)
	return task.Task{}
}

// allow answers what waits now.
func (a *arena) allow() {
	a.t.Helper()
	if _, err := a.Consent.Answer(context.Background(), a.waiting().ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		a.t.Fatal(err)
	}
}

// A deferred call is kept as a task, and its decision is recorded all the same (S4-27). It runs
// once when a person allows it, and the identical call gets its result; others get nothing of it.
func TestADeferredCallRunsOnce(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{Rules: deferRules})
	me := caller("agent", "main")
	press := func(text string) capabilities.Result { return a.press(me, `{"text":"`+text+`"}`) }
	first := press("later")
	if first.Code != capabilities.CodeApprovalPending || first.Pending().Task == "" {
		t.Fatalf("%+v", first)
	}
	packets, err := a.Ledger.Packets(t.Context(), ledger.Query{Call: first.Call, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, p := range packets {
		kinds = append(kinds, string(p.Kind))
	}
	if got := strings.Join(kinds, " "); !strings.Contains(got, "tool.call.request tool.call.decision") || !strings.Contains(got, string(ledger.KindCallPending)) {
		t.Errorf("recorded: %s", got)
	}
	if r := press("later"); r.Code != capabilities.CodeApprovalPending || len(a.Consent.Approvals()) != 1 {
		t.Fatalf("the identical call asks anew: %+v", r)
	}
	a.allow()
	a.task(task.Ended)
	if a.h.Runs("later") != 1 {
		t.Fatalf("ran %d times", a.h.Runs("later"))
	}
	for _, other := range []dispatch.Caller{caller("agent", "other"), caller("mallory", "main")} {
		if r := a.press(other, `{"text":"later"}`); r.Status == capabilities.StatusOK {
			t.Errorf("%+v got another's result", other)
		}
	}
	if r := press("later"); r.Status != capabilities.StatusOK || a.h.Runs("later") != 1 || !strings.Contains(string(r.Output), "later") {
		t.Errorf("its result: %+v", r)
	}
	if r := press("later"); r.Code != capabilities.CodeApprovalPending || a.h.Runs("later") != 1 {
		t.Errorf("the result is taken, so this is a new call: %+v", r)
	}
}

// A rule that asks and keeps is not overruled by a plain permit beside it, which asks
// nobody; another rule that asks and does not keep is.
func TestWhoHasASayInDeferring(t *testing.T) {
	t.Parallel()
	const plain = `@id("plain") permit (principal, action in Action::"family:fixture", resource);
@id("later") @defer("8h") forbid (principal, action == Action::"tool.fixture.echo", resource) unless { context.consent };`
	a := enter(t, site.Options{Rules: plain})
	if r := a.call(site.ToolEcho, `{"text":"x"}`); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	a.task(task.Waiting)
	if a.h.Runs("x") != 0 {
		t.Error("it ran")
	}
	a.allow()
	if a.task(task.Ended); a.h.Runs("x") != 1 {
		t.Errorf("ran %d times", a.h.Runs("x"))
	}
	b := enter(t, site.Options{Rules: plain + `@id("now") forbid (principal, action == Action::"tool.fixture.echo", resource) unless { context.consent };`})
	if r := b.call(site.ToolEcho, `{"text":"x"}`); r.Code != capabilities.CodeConsentUnavailable {
		t.Errorf("%+v", r)
	}
}

// A restart forgets the question but not the call: it is asked again.
func TestADeferredCallOutlivesTheGateway(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{Rules: deferRules})
	if r := a.press(caller("agent", "main"), `{"text":"kept"}`); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	old := a.task(task.Waiting)
	a.Restart()
	a.node.AwaitReady()
	w := a.waiting()
	if w.ID == old.Approval || w.Task != old.ID || w.Tool != site.ToolPress || a.h.Runs("kept") != 0 {
		t.Fatalf("%+v, ran %d times", w, a.h.Runs("kept"))
	}
	a.allow()
	if done := a.task(task.Ended); done.Code != "" || a.h.Runs("kept") != 1 {
		t.Errorf("%+v, ran %d times", done, a.h.Runs("kept"))
	}
}

// An allowed call is judged anew when it runs: a token that is gone, a node that is gone, and a no.
func TestADeferredCallIsJudgedAnew(t *testing.T) {
	t.Parallel()
	for what, between := range map[string]func(*arena){
		"the token was revoked": func(a *arena) {
			for _, tok := range a.Tokens.List() {
				if tok.Principal == "agent" {
					if _, err := a.Tokens.Revoke(a.t.Context(), principal.Site, tok.ID); err != nil {
						a.t.Fatal(err)
					}
				}
			}
			a.allow()
		},
		"the node went away": func(a *arena) {
			a.node.Stop()
			a.node.AwaitGone()
			a.allow()
		},
		"the node was put out": func(a *arena) {
			if _, err := a.Nodes.Revoke(a.t.Context(), a.node.ID, "anna", "gone"); err != nil {
				a.t.Fatal(err)
			}
			a.allow()
		},
		"a person said no": func(a *arena) {
			if _, err := a.Consent.Answer(a.t.Context(), a.waiting().ID, consent.Answer{By: "anna"}); err != nil {
				a.t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			a := enter(t, site.Options{Rules: deferRules})
			if r := a.press(caller("agent", "main"), `{"text":"x"}`); r.Code != capabilities.CodeApprovalPending {
				t.Fatalf("%+v", r)
			}
			a.task(task.Waiting)
			between(a)
			if done := a.task(task.Ended); done.Code == "" || a.h.Runs("x") != 0 {
				t.Errorf("%+v, ran %d times", done, a.h.Runs("x"))
			}
		})
	}
}
