//go:build unix

package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/test/site"
)

// asAdmin makes ann an admin who is signed in with a passkey of hers registered; synced: one
// that its authenticator says it may copy.
func (d *desk) asAdmin(synced bool) {
	d.t.Helper()
	p, err := principal.NewPassword(phrase)
	must(d.t, err)
	_, err = d.Tokens.AddUser(context.Background(), principal.Site, "ann", principal.RoleAdmin, p)
	must(d.t, err)
	d.browser = startChromeAt(d.t, byName)
	d.ask("WebAuthn.enable", object{}, nil)
	d.ask("WebAuthn.addVirtualAuthenticator", object{"options": object{
		"protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true, "isUserVerified": true, "automaticPresenceSimulation": true,
		"defaultBackupEligibility": synced, "defaultBackupState": synced,
	}}, nil)
	d.withPassword()
	d.addPasskey()
}

// pushes clicks a control of the page.
func (d *desk) pushes(selector string) {
	d.t.Helper()
	must(d.t, d.run(fmt.Sprintf(acknowledged+`document.querySelector(%q).click()`, selector), nil))
}

// acknowledged ticks the boxes of questions about what is privileged.
const acknowledged = `document.querySelectorAll("[name=acknowledged]").forEach((box) => { box.checked = true; }); `

const offered = `document.querySelector("#outcome .fault") && document.querySelector("#outcome form[data-passkey] button")`

// confirms is refused what widens, and confirms it with a passkey.
func (d *desk) confirms(what string, done func() bool) {
	d.t.Helper()
	d.await(offered)
	if said := d.value(`document.querySelector("#outcome .fault").innerText`); !strings.Contains(said, "hands_elsewhere") || done() {
		d.t.Fatalf("%s, without a passkey: %v, %s", what, done(), said)
	}
	d.shots("confirm-" + what)
	d.pushes("#outcome form[data-passkey] button")
	d.await(`document.readyState === "complete" && !document.querySelector("#outcome .fault")`)
	if !done() {
		d.t.Fatalf("%s: it was confirmed, and is not done: %s", what, d.value("document.body.innerText"))
	}
}

// Where an agent may have its hands, a passkey confirms what it was asked and nothing else:
// answers to several questions, a token, a grant, a change of policy, the end of a stop.
func TestAPasskeyConfirmsWhatWidens(t *testing.T) {
	d := startSite(t)
	d.asAdmin(false)
	d.Grant("robot", d.node, string(site.ToolPress)) // mouse and keyboard of this very host
	token := func(name capabilities.PrincipalID) bool {
		return slices.ContainsFunc(d.Tokens.List(), func(t principal.Token) bool { return t.Principal == name })
	}
	d.open(d.named() + "/console/tokens")
	d.fill("t-who", "newbie")
	d.pushes("#new button")
	d.await(offered)
	// The passkey's word to one token is not good for another.
	widened := `(async () => { const f = document.querySelector("#outcome form[data-passkey]"); const b = new URLSearchParams(new FormData(f));
		const o = await (await fetch(f.dataset.passkey, {method: "POST", body: b})).json();
		const bytes = (s) => Uint8Array.from(atob(s.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0)), words = (x) => btoa(String.fromCharCode(...new Uint8Array(x))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
		const g = await navigator.credentials.get({publicKey: {...o, challenge: bytes(o.challenge), allowCredentials: o.allowCredentials.map(k => ({...k, id: bytes(k.id)}))}});
		b.set("credential", JSON.stringify({id: g.id, rawId: words(g.rawId), type: g.type, response: {clientDataJSON: words(g.response.clientDataJSON), authenticatorData: words(g.response.authenticatorData), signature: words(g.response.signature), userHandle: words(g.response.userHandle)}}));
		b.set("role", "admin");
		return (await fetch(f.action, {method: "POST", body: b})).status })()`
	var status int
	must(t, d.run(widened, &status))
	if status != http.StatusUnauthorized || token("newbie") {
		t.Fatalf("a token that was widened: %d", status)
	}
	d.confirms("token", func() bool { return token("newbie") })
	if !strings.Contains(d.value("document.body.innerText"), "The token of newbie") {
		t.Error("the token is not shown")
	}

	grants := len(d.Consent.Grants())
	d.open(d.named() + "/console/grants")
	d.shots("grants")
	d.fill("g-who", "newbie")
	d.fill("g-tools", "tool.fixture.press")
	d.pushes("#new button")
	d.confirms("grant", func() bool { return len(d.Consent.Grants()) == grants+1 })

	d.open(d.named() + "/console/approvals")
	first, second := d.call("helper", string(site.ToolPress), `{"text":"the first"}`), d.call("helper", string(site.ToolPress), `{"text":"the second"}`)
	d.waiting(2)
	d.await(`document.querySelector(".together button[value=call]") && !("settling" in document.body.dataset)`)
	d.pushes(".together button[value=call]")
	d.confirms("answers", func() bool { return len(d.Consent.Approvals()) == 0 })
	for _, r := range []capabilities.Result{d.result(first), d.result(second)} {
		if r.Status != capabilities.StatusOK {
			t.Errorf("%+v", r)
		}
	}

	staged, err := d.Rulebook.Stage(t.Context(), rules.Edit{By: "ann", Files: []policy.Source{{Name: "more.cedar", Data: []byte(`@id("more") forbid (principal, action == Action::"tool.fixture.image", resource);`)}}})
	must(t, err)
	d.open(d.named() + "/console/policies/" + staged.SnapshotID())
	d.await(`document.querySelector("button[value=activate]")`)
	d.pushes("input[name=read]")
	d.pushes("button[value=activate]")
	d.confirms("policy", func() bool { return d.Rules().SnapshotID() == staged.SnapshotID() })

	d.pushes("#stop") // the hands of a moment ago are waited out
	d.await(`document.querySelector(".switch.on form button")`)
	stopped := func() bool { _, on := d.Switch.Now(); return on }
	d.pushes(".switch.on form button")
	d.confirms("resume", func() bool { return !stopped() })
	d.quiet("/console/tokens", "/console/grants", "/console/approvals", "/console/policies/", "/console/resume") // what was refused first
}

// A passkey that may be copied signs in, and confirms nothing there: it may be unlocked by
// a click on the lent screen.
func TestACopiedPasskeyConfirmsNothing(t *testing.T) {
	d := startSite(t)
	d.asAdmin(true)
	if u, err := d.Tokens.User("ann"); err != nil || len(u.Passkeys) != 1 || !u.Passkeys[0].Sync {
		t.Fatalf("%+v %v", u, err)
	}
	d.Grant("robot", d.node, string(site.ToolPress))
	d.open(d.named() + "/console/tokens")
	d.fill("t-who", "newbie")
	d.pushes("#new button")
	d.await(`document.querySelector("#outcome .fault")`)
	if page := d.value(`document.getElementById("outcome").innerText`); !strings.Contains(page, "hands_elsewhere") || !strings.Contains(page, "may be copied to other devices") || strings.Contains(page, "Confirm with your passkey") {
		t.Errorf("the page says: %s", page)
	}
	d.shots("copied")
	wanted := d.call("helper", string(site.ToolPress), `{"text":"wanted"}`)
	d.waiting(1)
	id := d.Consent.Approvals()[0].ID
	for _, at := range []struct{ path, form string }{{"/console/confirm/token", "principal=newbie&role=agent"}, {"/console/confirm/answers", "approval=" + id + "&answer=call"}, {"/console/approvals/" + id + "/passkey", "answer=call"}} {
		if got := d.fetch(at.path, at.form); got != "403" {
			t.Errorf("%s asks a passkey: %s", at.path, got)
		}
	}
	if slices.ContainsFunc(d.Tokens.List(), func(t principal.Token) bool { return t.Principal == "newbie" }) || len(d.Consent.Approvals()) != 1 {
		t.Error("something was done")
	}
	must(t, d.run(`fetch("/console/approvals/`+id+`", {method: "POST", headers: {"X-Handrail-Csrf": document.body.dataset.csrf}, body: new URLSearchParams("answer=deny")}).then(r => r.status)`, nil))
	if r := d.result(wanted); r.Code != capabilities.CodeConsentDenied {
		t.Errorf("the control: %+v", r)
	}
}

// A person who signed in a while ago allows what they asked of their own device with a passkey,
// also one that may be copied: no hands are lent.
func TestAnOwnerConfirmsWithAPasskey(t *testing.T) {
	d := startSite(t)
	d.asAdmin(true)
	owner := capabilities.PrincipalID("ann")
	_, err := d.Nodes.Change(t.Context(), d.node.ID, nodes.Edit{By: "site", Owner: &owner})
	must(t, err)
	must(t, d.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE token SET created_at = created_at - $1 WHERE parent <> ''`, 2*principal.FreshFor.Milliseconds())
		return err
	}))
	d.Restart()
	d.node.AwaitReady()
	done := make(chan capabilities.Result, 1)
	go func() {
		done <- d.Dispatcher.Call(d.ctx, dispatch.Request{Caller: dispatch.Caller{Principal: "ann", Role: "admin", Lane: "ann"}, Tool: site.ToolPress, Args: []byte(`{"text":"mine"}`), Surface: "test"})
	}()
	d.waiting(1)
	d.open(d.named() + "/console/approvals")
	d.await(`document.querySelector("[data-question] form[data-passkey] button") && !document.querySelector("[data-question] button[value=call]")`)
	d.shots("own-passkey")
	d.pushes("[data-question] form[data-passkey] button")
	if r := d.result(done); r.Status != capabilities.StatusOK || d.handler.Runs("mine") != 1 {
		t.Errorf("%+v", r)
	}
	list, err := d.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.approval.answered", Limit: 10})
	must(t, err)
	if len(list) != 1 || !strings.Contains(string(list[0].Body), `"via":"owner"`) || !strings.Contains(string(list[0].Body), `"known_by":"passkey"`) {
		t.Errorf("recorded: %+v", list)
	}
}
