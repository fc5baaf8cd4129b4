package console

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/principal"
)

// Somebody who has a passkey lets a client in with it, and not by a press alone: neither without
// the person, nor by what the page would send.
func TestAPasskeyLetsAClientIn(t *testing.T) {
	d := startSite(t)
	p, err := principal.NewPassword(phrase)
	must(t, err)
	_, err = d.Tokens.AddUser(context.Background(), principal.Site, "ann", principal.RoleAdmin, p)
	must(t, err)
	codes := make(chan url.Values, 4)
	client := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" { // browsers ask for an icon, too
			codes <- r.URL.Query()
		}
		_, _ = w.Write([]byte("<title>client</title>you are back"))
	}))
	t.Cleanup(client.Close)
	resp, err := http.Post(d.URL()+"/oauth/register", "application/json",
		strings.NewReader(fmt.Sprintf(`{"client_name":"Chat","redirect_uris":[%q]}`, client.URL+"/callback")))
	must(t, err)
	var made struct {
		ID string `json:"client_id"`
	}
	must(t, json.NewDecoder(resp.Body).Decode(&made))
	_ = resp.Body.Close()
	sum := sha256.Sum256([]byte("a-verifier-that-is-long-enough-for-rfc-7636-abc"))
	start := d.named() + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {made.ID}, "redirect_uri": {client.URL + "/callback"}, "state": {"s"}, "scope": {"browser"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "resource": {d.named() + "/mcp"},
	}.Encode()
	clients := func() (n int) {
		for _, rec := range d.Tokens.List() {
			if rec.Client != "" {
				n++
			}
		}
		return n
	}

	d.browser = startChromeAt(t, byName)
	key := d.authenticator()
	d.withPassword()
	d.addPasskey()
	d.open(start)
	d.await(`location.pathname === "/console/authorize" && document.readyState === "complete"`)
	d.says("Chat asks to be let in", "Your passkey confirms it")
	d.shots("authorize-passkey")
	d.ask("WebAuthn.setUserVerified", object{"authenticatorId": key, "isUserVerified": false}, nil)
	allow := func() {
		must(t, d.run(`document.querySelector("button[value=allow]").click(); 1`, nil))
	}
	allow()
	d.await(`document.querySelector("[data-problem]").textContent.includes("Nothing was confirmed")`)
	var status int
	must(t, d.run(`(async () => { const f = document.querySelector("form[data-passkey]"); const b = new URLSearchParams(new FormData(f)); b.set("answer", "allow");
		return (await fetch(f.action, {method: "POST", body: b})).status })()`, &status))
	if status != http.StatusForbidden || clients() != 0 {
		t.Errorf("without a passkey: %d, %d clients", status, clients())
	}

	// No passkey is asked for a no.
	must(t, d.run(`document.querySelector("button[value=deny]").click(); 1`, nil))
	d.await(`document.title === "client"`)
	if no := <-codes; no.Get("error") != "access_denied" {
		t.Errorf("sent back with %v", no)
	}
	d.ask("WebAuthn.setUserVerified", object{"authenticatorId": key, "isUserVerified": true}, nil)
	d.open(start)
	d.await(`location.pathname === "/console/authorize" && document.readyState === "complete"`)
	allow()
	d.await(`document.title === "client"`)
	if back := <-codes; back.Get("code") == "" || back.Get("state") != "s" || clients() != 1 {
		t.Errorf("sent back with %v, %d clients", back, clients())
	}
}
