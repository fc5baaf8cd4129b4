package attack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// askRules ask about every tool of the fixture.
const askRules = `@id("fixture") permit (principal, action in Action::"family:fixture", resource) when { context.consent };`

// call makes a call of any tool as the agent.
func (a *arena) call(tool capabilities.ToolID, args string) capabilities.Result {
	return a.Dispatcher.Call(a.t.Context(), dispatch.Request{Caller: caller("agent", "main"), Tool: tool, Args: []byte(args), Surface: "test"})
}

// activate puts the staged files in force as an admin and returns the HTTP status.
func (a *arena) activate(token string) (int, string) {
	a.t.Helper()
	hash := func(set string) string {
		status, body := a.do(token, "GET", "/v1/policy/sets/"+set, "")
		var v struct {
			Snapshot string `json:"snapshot_id"`
		}
		if status != 200 || json.Unmarshal([]byte(body), &v) != nil {
			return "sha256:" + strings.Repeat("0", 64)
		}
		return v.Snapshot
	}
	return a.do(token, "POST", "/v1/policy/activate", fmt.Sprintf(`{"from":%q,"to":%q,"reason":"test"}`, hash("active"), hash("staged")))
}

// stage writes one policy file.
func (a *arena) stage(name, cedar string) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.Dir, "policy", name), []byte(cedar), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// A yes for one tool is none for another with the same arguments, and a yes under one policy is
// none under the next, for once or for longer.
func TestAnApprovalIsForOneToolAndPolicy(t *testing.T) {
	a := enter(t, site.Options{Rules: askRules, ApprovalWait: time.Millisecond})
	admin := a.MustToken("root", principal.RoleAdmin)
	const args = `{"text":"x"}`
	if r := a.call(site.ToolEcho, args); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	a.allow()
	if r := a.call(site.ToolPress, args); r.Code != capabilities.CodeApprovalPending || a.h.Runs("x") != 0 {
		t.Errorf("for another tool: %+v", r)
	}
	if _, err := a.Consent.Answer(t.Context(), a.waiting().ID, consent.Answer{By: "anna"}); err != nil {
		t.Fatal(err)
	}
	a.Grant("agent", a.node, "tool.fixture.echo") // and for an hour
	a.stage("more.cedar", `@id("more") forbid (principal, action == Action::"tool.node.list", resource);`)
	if status, body := a.activate(admin); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if r := a.call(site.ToolEcho, args); r.Code != capabilities.CodeApprovalPending || a.h.Runs("x") != 0 {
		t.Errorf("under another policy: %+v, ran %d times", r, a.h.Runs("x"))
	}
	a.allow()
	if r := a.call(site.ToolEcho, args); r.Status != capabilities.StatusOK || a.h.Runs("x") != 1 {
		t.Errorf("the control: %+v", r)
	}
}

// A grant that was revoked does not come back: not by calls that spend it at the
// same time, not by a restart. One that was not is still there.
func TestARevokedGrantStaysRevoked(t *testing.T) {
	a := enter(t, site.Options{Rules: askRules})
	a.Grant("agent", a.node, "tool.fixture.echo")
	gone := a.Consent.Grants()[0].ID
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { a.call(site.ToolEcho, fmt.Sprintf(`{"text":"race%d"}`, i)) })
	}
	if err := a.Consent.Revoke(t.Context(), gone, "anna"); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	a.Grant("agent", a.node, "tool.fixture.press")
	kept := a.Consent.Grants()[0].ID
	for range 2 {
		if r := a.call(site.ToolEcho, `{"text":"after"}`); r.Status == capabilities.StatusOK || a.h.Runs("after") != 0 {
			t.Errorf("it is back: %+v", r)
		}
		if all := a.Consent.Grants(); len(all) != 1 || all[0].ID != kept {
			t.Errorf("%+v", all)
		}
		a.Restart()
		a.node.AwaitReady()
	}
	if r := a.call(site.ToolPress, `{"text":"control"}`); r.Status != capabilities.StatusOK || a.h.Runs("control") != 1 {
		t.Errorf("the control: %+v", r)
	}
}

// A policy with a misspelled name changes nothing, whoever activates it, and a
// forbid that fails to evaluate denies.
func TestPoliciesThatAreWrong(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{})
	admin := a.MustToken("root", principal.RoleAdmin)
	for what, rule := range map[string]string{
		"a misspelled tool":       `permit (principal, action == Action::"tool.fixture.pres", resource);`,
		"a misspelled attribute":  `forbid (principal, action, resource) unless { context.concent };`,
		"a misspelled type":       `permit (principal == Agnet::"agent", action, resource);`,
		"a misspelled argument":   `forbid (principal, action == Action::"tool.browser.navigate", resource) when { context.args.hots == "x" };`,
		"a misspelled annotation": `@mod("log_only") forbid (principal, action, resource);`,
		"no Cedar":                `permit everything`,
	} {
		a.stage("wrong.cedar", rule)
		if status, body := a.activate(admin); status == 200 {
			t.Errorf("%s came into force: %s", what, body)
		}
		text := "under " + what
		if r := a.call(site.ToolPress, fmt.Sprintf(`{"text":%q}`, text)); r.Status == capabilities.StatusOK || a.h.Runs(text) != 0 {
			t.Errorf("%s permits: %+v", what, r)
		}
		if r := a.call(site.ToolEcho, fmt.Sprintf(`{"text":%q}`, text)); r.Status != capabilities.StatusOK || a.h.Runs(text) != 1 {
			t.Errorf("%s: the control: %+v", what, r)
		}
	}
	// It overflows, always.
	a.stage("wrong.cedar", `@id("fails") forbid (principal, action in Action::"family:fixture", resource) when { context.time + 9223372036854775807 == 0 };`)
	if status, body := a.activate(admin); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if r := a.call(site.ToolEcho, `{"text":"failing"}`); r.Status != capabilities.StatusDenied || a.h.Runs("failing") != 0 {
		t.Errorf("a forbid that fails: %+v", r)
	}
	if err := os.Remove(filepath.Join(a.Dir, "policy", "wrong.cedar")); err != nil {
		t.Fatal(err)
	}
	// Rules that are edited or switched to reporting only are still in force.
	if status, body := a.activate(admin); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	a.stage("no.cedar", `@id("no") forbid (principal, action == Action::"tool.fixture.echo", resource);`)
	if status, body := a.activate(admin); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	a.stage("no.cedar", `@id("no") @mode("log_only") forbid (principal, action == Action::"tool.fixture.echo", resource);`)
	for range 2 {
		for _, token := range []string{a.agent, a.operator, ""} {
			if status, body := a.activate(token); status == 200 {
				t.Errorf("switched off by somebody who may not: %s", body)
			}
		}
		if r := a.call(site.ToolEcho, `{"text":"switched"}`); r.Status != capabilities.StatusDenied || a.h.Runs("switched") != 0 {
			t.Errorf("switched off by editing: %+v", r)
		}
		a.Restart()
		a.node.AwaitReady()
	}
	if status, body := a.activate(admin); status != 200 || a.call(site.ToolEcho, `{"text":"switched"}`).Status != capabilities.StatusOK {
		t.Errorf("the control: %d %s", status, body)
	}
}
