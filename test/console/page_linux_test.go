package console

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/oauth"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// A client that runs in a page of an origin that the admin named finds its way in with a real
// browser's fetch, and calls; the API and the console are closed to it, and everything is to the
// same page at another origin.
func TestAClientInAPage(t *testing.T) {
	client := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>client</title><body>a client</body>"))
	}))
	t.Cleanup(client.Close)
	origin := strings.Replace(client.URL, "127.0.0.1", "localhost", 1)
	d := startSite(t, func(o *gateway.Options) { o.ClientOrigins = []string{origin} })
	d.enter(principal.RoleAdmin) // the session's cookie is there, and must be worth nothing to the page

	// page evaluates what an async function returns, in the client's page.
	page := func(body string, into any) error {
		return d.run(`(async () => { const gateway = `+fmt.Sprintf("%q", d.URL())+`; `+body+` })()`, into)
	}
	d.browser.open(origin + "/")
	var found struct {
		Status              int
		Challenge, Resource string
		Token, ID           string
	}
	must(t, page(`
		const refused = await fetch(gateway + "/mcp", {method: "POST", headers: {"Content-Type": "application/json", "Mcp-Protocol-Version": "2025-06-18"}, body: "{}"});
		const challenge = refused.headers.get("WWW-Authenticate");
		const about = await (await fetch(challenge.match(/resource_metadata="([^"]*)"/)[1], {headers: {"Mcp-Protocol-Version": "2025-06-18"}})).json();
		const server = await (await fetch(about.authorization_servers[0] + "/.well-known/oauth-authorization-server")).json();
		const made = await (await fetch(server.registration_endpoint, {method: "POST", headers: {"Content-Type": "application/json"},
			body: JSON.stringify({client_name: "Page", redirect_uris: [location.origin + "/callback"]})})).json();
		return {Status: refused.status, Challenge: challenge, Resource: about.resource, Token: server.token_endpoint, ID: made.client_id};`, &found))
	if found.Status != http.StatusUnauthorized || found.Resource != d.URL()+"/mcp" || found.ID == "" {
		t.Fatalf("%+v", found)
	}
	const verifier = "a-verifier-that-is-long-enough-for-rfc-7636-abc"
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {found.ID}, "redirect_uri": {origin + "/callback"}, "state": {"s"}, "resource": {found.Resource},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()
	_, to, err := d.Clients.Allow(httptest.NewRequest(http.MethodPost, d.URL()+"/", nil), principal.Site,
		oauth.Wish{Query: query, Principal: "page", Tools: []string{"node"}})
	must(t, err)
	back, err := url.Parse(to)
	must(t, err)
	form := url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "client_id": {found.ID}, "code_verifier": {verifier}}
	var called struct {
		Access, Body string
		Status       int
	}
	must(t, page(fmt.Sprintf(`
		const got = await (await fetch(%q, {method: "POST", body: new URLSearchParams(%q)})).json();
		const answer = await fetch(gateway + "/mcp", {method: "POST", headers: {"Authorization": "Bearer " + got.access_token,
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"},
			body: JSON.stringify({jsonrpc: "2.0", id: 1, method: "initialize", params: {protocolVersion: "2025-06-18", capabilities: {}, clientInfo: {name: "page", version: "1"}}})});
		return {Access: got.access_token, Status: answer.status, Body: await answer.text()};`, found.Token, form.Encode()), &called))
	if called.Status != http.StatusOK || !strings.Contains(called.Body, "serverInfo") {
		t.Errorf("%d %.300s", called.Status, called.Body)
	}

	// It reads nothing else, with or without the person's cookie and its token.
	closed := func(paths ...string) {
		t.Helper()
		list, _ := json.Marshal(paths)
		var read []string
		must(t, page(fmt.Sprintf(`
			const read = [];
			for (const path of %s) for (const credentials of ["omit", "include"]) for (const headers of [{}, {Authorization: "Bearer " + %q}])
				try { await fetch(gateway + path, {credentials, headers}); read.push(path + " " + credentials); } catch {}
			return read;`, list, called.Access), &read))
		if len(read) > 0 {
			t.Errorf("at %s a page reads %v", d.value("location.origin"), read)
		}
	}
	closed("/v1/tools", "/v1/account", "/console/approvals", "/console/login", "/metrics", "/")
	d.browser.open(client.URL + "/") // the same page, at an origin that nobody named
	closed("/mcp", "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/v1/tools", "/console/approvals")
}
