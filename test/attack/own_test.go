package attack

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/test/site"
)

// askedRules ask a person about each call of the fixture.
const askedRules = `@id("fixture") permit (principal, action in Action::"family:fixture", resource) when { context.consent };`

// browsed is a session of the console as somebody without a browser uses it.
type browsed struct {
	a            *arena
	cookie, csrf string
}

// browse signs in by a form of the console.
func (a *arena) browse(way string, form url.Values) browsed {
	a.t.Helper()
	resp := a.request("POST", "/console/login"+way, form, http.Header{"Origin": {a.URL()}})
	cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	if resp.StatusCode != http.StatusSeeOther || cookie == "" {
		a.t.Fatalf("signing in: %d", resp.StatusCode)
	}
	return a.with(cookie)
}

// with is a session by its cookie.
func (a *arena) with(cookie string) browsed {
	a.t.Helper()
	resp := a.request("GET", "/console/account", nil, http.Header{"Cookie": {cookie}})
	page, err := io.ReadAll(resp.Body)
	found := regexp.MustCompile(`data-csrf="([^"]+)"`).FindSubmatch(page)
	if err != nil || found == nil {
		a.t.Fatalf("the account: %d %v", resp.StatusCode, err)
	}
	return browsed{a, cookie, string(found[1])}
}

// byLink signs in by a link that a token makes.
func (a *arena) byLink(token string, role principal.Role) browsed {
	a.t.Helper()
	who, err := a.Tokens.Authenticate(token)
	if err != nil {
		a.t.Fatal(err)
	}
	code, _, err := a.Tokens.Login(who, role)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.browse("", url.Values{"code": {code.Reveal()}})
}

func (a *arena) request(method, path string, form url.Values, header http.Header) *http.Response {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.URL()+path, strings.NewReader(form.Encode()))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header = header
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := http.Client{Transport: a.client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// post sends a form of a page, and returns status and page.
func (b browsed) post(path string, form url.Values) (int, string) {
	b.a.t.Helper()
	resp := b.a.request("POST", path, form, http.Header{"Cookie": {b.cookie}, "Origin": {b.a.URL()}, front.CSRFHeader: {b.csrf}})
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		b.a.t.Fatal(err)
	}
	return resp.StatusCode, string(page)
}

// olga is a user who signs in by a password, and asks with a token of hers.
func (a *arena) olga(role principal.Role) (token string, signIn func() browsed) {
	a.t.Helper()
	const phrase = "correct horse battery staple"
	p, err := principal.NewPassword(phrase)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := a.Tokens.AddUser(a.t.Context(), principal.Site, "olga", role, p); err != nil {
		a.t.Fatal(err)
	}
	return a.MustToken("olga", role), func() browsed {
		return a.browse("/password", url.Values{"name": {"olga"}, "password": {phrase}})
	}
}

func (a *arena) owns(n *site.Node, who capabilities.PrincipalID) {
	a.t.Helper()
	if _, err := a.Nodes.Change(a.t.Context(), n.ID, nodes.Edit{By: "site", Owner: &who}); err != nil {
		a.t.Fatal(err)
	}
}

// asks has somebody ask for one call of a tool, and returns the question.
func (a *arena) asks(who capabilities.PrincipalID, role string, n *site.Node, text string) consent.Approval {
	a.t.Helper()
	if r := a.calls(who, role, n, text); r.Code != capabilities.CodeApprovalPending {
		a.t.Fatalf("%+v", r)
	}
	all := a.Consent.Approvals()
	return all[len(all)-1]
}

func (a *arena) calls(who capabilities.PrincipalID, role string, n *site.Node, text string) capabilities.Result {
	return a.Dispatcher.Call(a.t.Context(), dispatch.Request{
		Caller: dispatch.Caller{Principal: who, Role: role, Lane: "olga"}, Tool: "tool.fixture.echo", Args: fmt.Appendf(nil, `{"text":%q,"node_id":%q}`, text, n.ID), Surface: "test",
	})
}

// A person allows calls on their own device themselves, if they are there: in the console, freshly
// signed in. No token of theirs can, however it is used, no viewer, no session that is older,
// nobody for a device of somebody else's, nobody while an agent may have its hands where they are,
// and nothing that lasts. The calls that ran are the judge.
func TestOnlyTheOwnerThemselvesIsTheConsent(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{ApprovalWait: time.Millisecond, Rules: askedRules})
	other := a.AddNode("other", a.h)
	token, signIn := a.olga(principal.RoleOperator)
	here := signIn()
	a.owns(a.node, "olga")
	a.owns(other, "anna")
	yes := url.Values{"answer": {"call"}}
	refused := func(what, said string, status int, answer, id string) {
		t.Helper()
		got, err := a.Consent.Approval(id)
		if status != 403 || !strings.Contains(answer, said) || err != nil || got.State != consent.StatePending || a.h.Runs("mine") != 0 || len(a.Consent.Grants()) != 0 {
			t.Errorf("%s: %d, %+v %v, without %q in %s", what, status, got.State, err, said, answer)
		}
	}
	mine := a.asks("olga", "operator", a.node, "mine")
	at := "/console/approvals/" + mine.ID
	status, answer := a.do(token, "POST", "/v1/approvals/"+mine.ID, `{"answer":"allow","acknowledged":true}`)
	refused("a token of hers", "you asked for this call yourself", status, answer, mine.ID)
	status, answer = a.do(a.agent, "POST", "/v1/approvals/"+mine.ID, `{"answer":"allow","acknowledged":true}`)
	refused("an agent", "forbidden", status, answer, mine.ID)
	status, answer = a.do(token, "POST", "/v1/approvals", fmt.Sprintf(`{"approvals":[%q],"answer":"allow","acknowledged":true}`, mine.ID))
	refused("a token of hers, for several", "forbidden", status, answer, mine.ID)
	status, answer = a.byLink(token, "").post(at, yes)
	refused("a link of that token", "and not who", status, answer, mine.ID)
	status, answer = a.byLink(token, principal.RoleViewer).post(at, yes)
	refused("a viewer", "viewer", status, answer, mine.ID)
	for _, kind := range []string{"lease", "session", "family"} {
		status, answer = here.post(at, url.Values{"answer": {kind}})
		refused("for longer", "one call at a time", status, answer, mine.ID)
	}
	theirs := a.asks("olga", "operator", other, "mine")
	status, answer = here.post("/console/approvals/"+theirs.ID, yes)
	refused("a device of somebody else's", "Nobody approves what they asked for themselves", status, answer, theirs.ID)
	nobody := capabilities.PrincipalID("")
	if _, err := a.Nodes.Change(t.Context(), other.ID, nodes.Edit{By: "site", Owner: &nobody}); err != nil {
		t.Fatal(err)
	}
	status, answer = here.post("/console/approvals/"+theirs.ID, yes)
	refused("a device of nobody's", "Nobody approves what they asked for themselves", status, answer, theirs.ID)
	// She does not make it hers: that takes an admin.
	if status, answer := a.do(token, "PATCH", "/v1/nodes/"+string(other.ID), `{"owner":"olga"}`); status != 403 || a.Nodes.Owner(other.ID) != "" {
		t.Errorf("an operator names herself the owner: %d %s", status, answer)
	}

	// The control: she is there.
	if status, answer = here.post(at, yes); status != http.StatusSeeOther {
		t.Fatalf("she herself: %d %s", status, answer)
	}
	// An agent of her name, in her lane, with the same call, has nothing of it.
	if r := a.calls("olga", "agent", a.node, "mine"); r.Code != capabilities.CodeApprovalPending || a.h.Runs("mine") != 0 {
		t.Errorf("an agent of her name: %+v", r)
	}
	if r := a.calls("olga", "operator", a.node, "mine"); r.Status != capabilities.StatusOK || a.h.Runs("mine") != 1 {
		t.Errorf("the control: %+v", r)
	}
	if r := a.calls("olga", "operator", a.node, "mine"); r.Code != capabilities.CodeApprovalPending || a.h.Runs("mine") != 1 {
		t.Errorf("once more: %+v", r)
	}
	list, err := a.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.approval.answered", Limit: 10})
	if err != nil || len(list) != 1 || list[0].Principal != "olga" || !strings.Contains(string(list[0].Body), `"via":"owner"`) || !strings.Contains(string(list[0].Body), `"known_by":"password"`) {
		t.Errorf("the ledger says %v %+v", err, list)
	}

	// Another olga has nothing of what was hers.
	if _, err := a.Tokens.RemoveUser(t.Context(), principal.Site, "olga"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(site.Within); a.Nodes.Owner(a.node.ID) != ""; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a device belongs to somebody who was removed")
		}
	}
	_, signIn = a.olga(principal.RoleOperator)
	here = signIn()
	a.owns(a.node, "olga")

	// Hands: a lease of mouse and keyboard of this very host.
	again := a.asks("olga", "operator", a.node, "again")
	a.Grant("robot", a.node, string(site.ToolPress))
	status, answer = here.post("/console/approvals/"+again.ID, yes)
	if got, err := a.Consent.Approval(again.ID); status != 403 || !strings.Contains(answer, "hands_elsewhere") || err != nil || got.State != consent.StatePending || a.h.Runs("again") != 0 {
		t.Errorf("while hands are lent: %d %+v %s", status, got, answer)
	}
}

// A person who signed in more than ten minutes ago may have left the page open.
func TestAnOldSessionIsNotTheConsent(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{ApprovalWait: time.Millisecond, Rules: askedRules})
	_, signIn := a.olga(principal.RoleAdmin)
	here := signIn()
	a.owns(a.node, "olga")
	if err := a.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE token SET created_at = created_at - $1 WHERE parent <> ''`, (principal.FreshFor + time.Second).Milliseconds())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	a.Restart()
	a.node.AwaitReady()
	question := a.asks("olga", "admin", a.node, "mine")
	status, answer := a.with(here.cookie).post("/console/approvals/"+question.ID, url.Values{"answer": {"call"}})
	if got, err := a.Consent.Approval(question.ID); status != 403 || !strings.Contains(answer, "more than 10 minutes ago") || err != nil || got.State != consent.StatePending || a.h.Runs("mine") != 0 {
		t.Errorf("%d %+v %v %s", status, got, err, answer)
	}
	// The control: signed in again.
	if status, answer := signIn().post("/console/approvals/"+question.ID, url.Values{"answer": {"call"}}); status != http.StatusSeeOther {
		t.Errorf("%d %s", status, answer)
	}
	if r := a.calls("olga", "admin", a.node, "mine"); r.Status != capabilities.StatusOK || a.h.Runs("mine") != 1 {
		t.Errorf("the control: %+v", r)
	}
}
