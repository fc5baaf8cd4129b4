package attack

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// A user who is removed leaves nothing behind that works: no token under their name, no
// session, no stream that is open, no question that waits, no grant that they have or gave;
// and nobody of that name who comes later finds any of it. Others go on.
func TestNothingOutlivesWhoWasRemoved(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{ApprovalWait: site.Within})
	admin := a.MustToken("root", principal.RoleAdmin)
	const password = "four words in a row"
	must := func(method, path, body string) string {
		t.Helper()
		status, answer := a.do(admin, method, path, body)
		if status != 200 {
			t.Fatalf("%s %s: %d %s", method, path, status, answer)
		}
		return answer
	}
	must("POST", "/v1/users", `{"principal":"eve","role":"operator","password":"`+password+`"}`)
	eve := a.MustToken("eve", principal.RoleOperator)
	signIn := func() (string, error) {
		p, err := principal.NewPassword(password)
		if err != nil {
			t.Fatal(err)
		}
		_, cookie, err := a.Tokens.SignIn(t.Context(), "eve", p)
		return cookie.Reveal(), err
	}
	session, err := signIn()
	if err != nil {
		t.Fatal(err)
	}
	lease := func(who capabilities.PrincipalID, tool capabilities.ToolID, by capabilities.PrincipalID) {
		t.Helper()
		if _, err := a.Consent.Grant(t.Context(), consent.Spec{Principal: who, Tools: []string{string(tool)}, Node: a.node.ID, AnyLane: true, For: time.Hour, Approver: by}); err != nil {
			t.Fatal(err)
		}
	}
	lease("agent", site.ToolPress, "eve") // given by her
	lease("other", site.ToolEcho, "anna") // the control
	if r := a.press(caller("agent", "agent"), `{"text":"lent by eve"}`); r.Status != capabilities.StatusOK {
		t.Fatalf("%+v", r)
	}
	// A stream of hers, and a call that waits for a person.
	req, err := http.NewRequestWithContext(t.Context(), "GET", a.URL()+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+eve)
	stream, err := a.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	asked := make(chan string, 1)
	go func() {
		_, answer := a.do(eve, "POST", "/v1/calls", `{"tool":"`+string(site.ToolPress)+`","args":{"text":"asked by eve"}}`)
		asked <- answer
	}()
	question := a.waiting()

	if answer := must("DELETE", "/v1/users/eve", ""); !strings.Contains(answer, `"tokens_ended":1`) {
		t.Errorf("removed: %s", answer)
	}
	if status, _ := a.do(eve, "GET", "/v1/whoami", ""); status != 401 {
		t.Errorf("her token is still good: %d", status)
	}
	if _, err := a.Tokens.Session(session); err == nil {
		t.Error("her session is still good")
	}
	if _, err := signIn(); err == nil {
		t.Error("her password still signs in")
	}
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
	} // to its end, or the test's
	if answer := <-asked; strings.Contains(answer, `"status":"ok"`) {
		t.Errorf("her call went on: %s", answer)
	}
	a.until("her question to close", func() bool {
		w, err := a.Consent.Approval(question.ID)
		return err != nil || w.State != consent.StatePending
	})
	a.until("what she lent to end", func() bool { return len(a.Consent.Grants()) == 1 })
	if g := a.Consent.Grants(); len(g) != 1 || g[0].Principal != "other" {
		t.Errorf("grants: %+v", g)
	}
	ctx, cancel := context.WithCancel(t.Context())
	again := make(chan struct{})
	go func() {
		defer close(again)
		a.Dispatcher.Call(ctx, requestOf("agent", site.ToolPress, `{"text":"lent by nobody"}`))
	}()
	a.waiting() // it asks anew
	cancel()
	<-again
	// Somebody of her name comes later, as a viewer.
	p, err := principal.NewPassword(password)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Tokens.AddUser(t.Context(), principal.Site, "eve", principal.RoleViewer, p); err != nil {
		t.Fatal(err)
	}
	if status, _ := a.do(eve, "GET", "/v1/whoami", ""); status != 401 {
		t.Errorf("the token of the one before is good again: %d", status)
	}
	for _, text := range []string{"asked by eve", "lent by nobody"} {
		if n := a.h.Runs(text); n != 0 {
			t.Errorf("%q ran %d times", text, n)
		}
	}
}

// A grant ends with the last token of who has it, and the next token of that name does not
// find it; nor after a restart, if the gateway ended in between.
func TestAGrantEndsWithTheLastToken(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	admin := principal.Identity{Principal: "root", Role: principal.RoleAdmin}
	lend := func() {
		t.Helper()
		if _, err := a.Consent.Grant(t.Context(), consent.Spec{Principal: "agent", Tools: []string{string(site.ToolPress)}, Node: a.node.ID, AnyLane: true, For: time.Hour, Approver: "anna"}); err != nil {
			t.Fatal(err)
		}
	}
	revoke := func() {
		t.Helper()
		for _, k := range a.Tokens.List() {
			if k.Principal == "agent" && a.Tokens.Valid(k.ID) {
				if _, err := a.Tokens.Revoke(t.Context(), admin, k.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	lend()
	a.MustToken("agent", principal.RoleAgent)
	first, err := a.Tokens.Authenticate(a.agent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Tokens.Revoke(t.Context(), admin, first.TokenID); err != nil {
		t.Fatal(err)
	}
	if r := a.press(caller("agent", "agent"), `{"text":"one token left"}`); r.Status != capabilities.StatusOK { // the control
		t.Fatalf("%+v", r)
	}
	revoke()
	a.until("the grant to end", func() bool { return len(a.Consent.Grants()) == 0 })
	a.MustToken("agent", principal.RoleAgent)
	if r := a.press(caller("agent", "agent"), `{"text":"next"}`); r.Code != capabilities.CodeApprovalPending {
		t.Errorf("the next of that name: %+v", r)
	}
	if n := a.h.Runs("next"); n != 0 {
		t.Errorf("it ran %d times", n)
	}
}
