//go:build unix

package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

const phrase = "correct horse battery staple"

// authenticator returns the browser a security key in software, and its ID.
func (b *browser) authenticator() string {
	b.t.Helper()
	b.ask("WebAuthn.enable", object{}, nil)
	var made struct {
		ID string `json:"authenticatorId"`
	}
	b.ask("WebAuthn.addVirtualAuthenticator", object{"options": object{
		"protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true, "isUserVerified": true, "automaticPresenceSimulation": true,
	}}, &made)
	return made.ID
}

// named is the site's address by a name, for which browsers keep passkeys.
func (d *desk) named() string { return strings.Replace(d.URL(), "127.0.0.1", "localhost", 1) }

// withPassword signs ann in at the page, by keyboard.
func (d *desk) withPassword() {
	d.t.Helper()
	d.open(d.named() + "/console/login")
	must(d.t, d.run(`document.getElementById("name").focus()`, nil))
	d.typed("ann")
	d.key("Tab")
	d.typed(phrase)
	d.key("Enter")
	d.await(`location.pathname === "/console/" && document.readyState === "complete"`)
}

// addUser makes ann a user with a password.
func (d *desk) addUser() {
	d.t.Helper()
	p, err := principal.NewPassword(phrase)
	must(d.t, err)
	_, err = d.Tokens.AddUser(context.Background(), principal.Site, "ann", principal.RoleOperator, p)
	must(d.t, err)
}

// addPasskey registers one in ann's account.
func (d *desk) addPasskey() {
	d.t.Helper()
	d.open(d.named() + "/console/account")
	must(d.t, d.run(`document.getElementById("passkey-name").focus()`, nil))
	d.typed("laptop")
	d.key("Enter")
	d.await(`document.getElementById("outcome").textContent.includes("The passkey is registered")`)
}

// A person signs in with a password, adds a passkey, and signs in with that; signing
// out everywhere ends every session.
func TestPasswordAndPasskey(t *testing.T) {
	d := startSite(t)
	d.addUser()
	d.browser = startChromeAt(t, byName)
	d.authenticator()
	d.open(d.named() + "/console/login")
	d.shots("login")
	const first = `document.querySelector("main form").id`
	if got := d.value(first); got != "login" || d.value(`document.querySelector("#passkey") === null`) != "true" {
		t.Errorf("where nobody has a passkey, the page begins with %s", got)
	}
	d.withPassword()
	d.addPasskey()
	d.shots("account")
	if u, err := d.Tokens.User("ann"); err != nil || len(u.Passkeys) != 1 || u.Passkeys[0].Name != "laptop" || u.Passkeys[0].Place != "localhost" {
		t.Fatalf("%+v %v", u, err)
	}
	must(t, d.run(`document.querySelector("form[action='/console/account/sessions'] button").click()`, nil))
	d.await(`location.pathname === "/console/login"`)
	if n := len(d.Tokens.Sessions("ann")); n != 0 {
		t.Errorf("%d sessions after signing out everywhere", n)
	}
	d.open(d.named() + "/console/approvals")
	d.await(`location.pathname === "/console/login" && document.readyState === "complete"`)
	if got := d.value(first); got != "passkey" {
		t.Errorf("where somebody has a passkey, the page begins with %s", got)
	}
	must(t, d.run(`document.querySelector("#passkey button").click()`, nil))
	d.await(`location.pathname === "/console/"`)
	if got := d.Tokens.Sessions("ann"); len(got) != 1 || got[0].Role != principal.RoleOperator {
		t.Errorf("sessions: %+v", got)
	}
	// A page whose session has just ended may ask once more before it leaves.
	d.quiet("/console/account", "/console/events", "/console/surfaced")
}

// While an agent holds the approver's device, the console there refuses what widens,
// says why and what to do; the approver's passkey, and nothing less, confirms that one
// answer.
func TestAPasskeyApprovesWhereAnAgentHoldsTheMouse(t *testing.T) {
	d := startSite(t)
	d.addUser()
	d.browser = startChromeAt(t, byName)
	key := d.authenticator()
	d.withPassword()
	d.addPasskey()
	d.Grant("robot", d.node, string(site.ToolPress)) // mouse and keyboard of this very host
	d.open(d.named() + "/console/approvals")
	wanted := d.call("helper", string(site.ToolPress), `{"text":"wanted"}`)
	d.waiting(1)
	d.await(`document.querySelectorAll("[data-question]").length === 1 && !("settling" in document.body.dataset)`)
	allow := func() {
		t.Helper()
		must(t, d.run(acknowledged+`document.querySelector("[data-question] button[value=call]").click()`, nil))
		d.await(`document.querySelector("#outcome .fault") && document.querySelector("#outcome form[data-passkey] button")`)
	}
	confirm := func() {
		t.Helper()
		must(t, d.run(`document.querySelector("#outcome form[data-passkey] button").click()`, nil))
	}
	notRun := func(about string) {
		t.Helper()
		if d.handler.Runs("wanted") != 0 || len(d.Consent.Approvals()) != 1 {
			t.Fatalf("%s: it ran, or nothing waits any more", about)
		}
	}
	allow()
	notRun("a press")
	said := d.value(`document.querySelector("#outcome .fault").innerText`)
	for _, want := range []string{"Robot may use mouse, keyboard or browser", "from another device", "hands_elsewhere"} {
		if !strings.Contains(said, want) {
			t.Errorf("the refusal does not say %q: %s", want, said)
		}
	}
	d.shots("held")
	d.ask("WebAuthn.setUserVerified", object{"authenticatorId": key, "isUserVerified": false}, nil)
	confirm()
	d.await(`document.querySelector("#outcome [data-problem]").textContent.includes("Nothing was confirmed")`)
	notRun("nobody verified")
	// Somebody with the page, but without the passkey, sends what it would send.
	forged := `(async () => { const f = document.querySelector("#outcome form[data-passkey]"); const b = new URLSearchParams(new FormData(f)); b.set("credential", '{"id":"AA","rawId":"AA","type":"public-key","response":{}}');
		return (await fetch(f.action, {method: "POST", body: b})).status })()`
	var status int
	must(t, d.run(forged, &status))
	if status != http.StatusUnauthorized {
		t.Errorf("a made-up answer: %d", status)
	}
	notRun("a made-up answer")
	d.ask("WebAuthn.setUserVerified", object{"authenticatorId": key, "isUserVerified": true}, nil)
	// The passkey's word to one answer is not good for another.
	widened := `(async () => { const f = document.querySelector("#outcome form[data-passkey]"); const b = new URLSearchParams(new FormData(f));
		const o = await (await fetch(f.dataset.passkey, {method: "POST", body: b})).json();
		const bytes = (s) => Uint8Array.from(atob(s.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0)), words = (x) => btoa(String.fromCharCode(...new Uint8Array(x))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
		const g = await navigator.credentials.get({publicKey: {...o, challenge: bytes(o.challenge), allowCredentials: o.allowCredentials.map(k => ({...k, id: bytes(k.id)}))}});
		b.set("credential", JSON.stringify({id: g.id, rawId: words(g.rawId), type: g.type, response: {clientDataJSON: words(g.response.clientDataJSON), authenticatorData: words(g.response.authenticatorData), signature: words(g.response.signature), userHandle: words(g.response.userHandle)}}));
		b.set("answer", "lease"); b.set("minutes", "60"); b.set("family", "1");
		return (await fetch(f.action, {method: "POST", body: b})).status })()`
	must(t, d.run(widened, &status))
	if status != http.StatusUnauthorized {
		t.Errorf("an answer that was widened: %d", status)
	}
	notRun("an answer that was widened")
	confirm()
	if r := d.result(wanted); r.Status != capabilities.StatusOK || d.handler.Runs("wanted") != 1 {
		t.Errorf("%+v", r)
	}
	d.await(`document.getElementById("outcome").textContent.includes("Allowed")`)
	list, err := d.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.approval.answered", Limit: 10})
	must(t, err)
	if len(list) != 1 || !strings.Contains(string(list[0].Body), `"via":"passkey"`) {
		t.Errorf("recorded: %+v", list)
	}
	// Ways to sign in are not changed from there either, and denying works at once.
	d.open(d.named() + "/console/account")
	must(t, d.run(`document.getElementById("passkey-name").focus()`, nil))
	d.typed("another")
	d.key("Enter")
	d.await(`document.querySelector("[data-problem]").textContent.includes("may use mouse, keyboard or browser")`)
	if u, err := d.Tokens.User("ann"); err != nil || len(u.Passkeys) != 1 {
		t.Errorf("%+v %v", u, err)
	}
	// The words of the page stay while it is brought up to date with what happens elsewhere.
	unwanted := d.call("helper", string(site.ToolPress), `{"text":"unwanted"}`)
	d.await(`document.getElementById("waiting").textContent.startsWith("1")`)
	if got := d.value(`document.querySelector("[data-problem]").textContent`); !strings.Contains(got, "may use mouse, keyboard or browser") {
		t.Errorf("what the form was told is gone after a refresh: %q", got)
	}
	d.open(d.named() + "/console/approvals")
	d.await(`document.querySelectorAll("[data-question]").length === 1 && !("settling" in document.body.dataset)`)
	must(t, d.run(`document.querySelector("[data-question] button[value=deny]").click()`, nil))
	if r := d.result(unwanted); r.Code != capabilities.CodeConsentDenied || d.handler.Runs("unwanted") != 0 {
		t.Errorf("%+v", r)
	}
}

// Passwords are guessed ten times from an address, whoever they are for and whatever
// a header says; then not even the right one is looked at, and the other ways in stay
// open.
func TestPasswordsAreNotGuessed(t *testing.T) {
	d := startSite(t)
	d.addUser()
	own := http.Header{"Origin": {d.URL()}}
	began, passed, right := time.Now(), 0, 0
	for i := range 80 {
		h := own.Clone()
		switch i % 3 {
		case 1:
			h.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i))
		case 2:
			h = http.Header{} // no page of ours: it costs the same
		}
		form := url.Values{"name": {[]string{"ann", "nobody"}[i%2]}, "password": {fmt.Sprintf("guess %d", i)}}
		if i > 40 && i%3 == 0 {
			form = url.Values{"name": {"ann"}, "password": {phrase}}
		}
		status, _ := send(t, "POST", d.URL()+"/console/login/password", h, form)
		switch {
		case status == http.StatusSeeOther && i > 40:
			right++
		case status < 400:
			t.Fatalf("guess %d: %d", i, status)
		}
		if status != capabilities.CodeOverloaded.Info().HTTP {
			passed++
		}
	}
	// Ten at once and one more each six seconds.
	if most := 11 + int(time.Since(began)/(6*time.Second)); passed > most {
		t.Errorf("%d of 80 tries were looked at, %d at most", passed, most)
	}
	if n := len(d.Tokens.Sessions("ann")); n != right {
		t.Errorf("%d sessions, %d right passwords were looked at", n, right)
	}
	d.session(principal.RoleViewer)
}

// A session that ends soon says so in time, and is kept by one press of a key.
func TestASessionIsKeptByKeyboard(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	before := d.Tokens.Sessions("ann")
	if len(before) != 1 {
		t.Fatalf("%+v", before)
	}
	// Twelve hours but for five minutes later, as the page has it.
	must(t, d.run(`window.clock = Date.now; Date.now = () => clock() + (12 * 60 - 5) * 60000; 1`, nil))
	d.await(`document.getElementById("ending").innerText.includes("You will be signed out")`)
	d.shots("ending")
	d.tabTo("#ending button")
	d.key("Enter")
	d.await(fmt.Sprintf("Number(document.body.dataset.expires) > %d", before[0].ExpiresAt.UnixMilli()))
	must(t, d.run(`Date.now = clock; 1`, nil))
	d.await(`document.getElementById("ending").classList.contains("none")`)
	after := d.Tokens.Sessions("ann")
	if len(after) != 1 || after[0].ID != before[0].ID || !after[0].ExpiresAt.After(before[0].ExpiresAt) {
		t.Errorf("it lasted until %v, and lasts until %v", before[0].ExpiresAt, after)
	}
	d.quiet()
}
