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

	"github.com/handrail-dev/handrail/gateway/principal"
)

// A client of another site sends a person here, who is told who asks, chooses, and is sent back
// with a code; the pages then say that it is in, and how it came.
func TestLetAClientIn(t *testing.T) {
	d := startSite(t)
	var start string
	codes := make(chan url.Values, 4)
	client := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" {
			codes <- r.URL.Query()
			_, _ = w.Write([]byte("<title>client</title>you are back"))
			return
		}
		fmt.Fprintf(w, `<title>client</title><script>location = %q</script>`, start)
	}))
	t.Cleanup(client.Close)
	elsewhere := strings.Replace(client.URL, "127.0.0.1", "localhost", 1) // another site than the gateway's
	resp, err := http.Post(d.URL()+"/oauth/register", "application/json",
		strings.NewReader(fmt.Sprintf(`{"client_name":"Chat <b>bold</b>","redirect_uris":[%q]}`, elsewhere+"/callback")))
	must(t, err)
	var made struct {
		ID string `json:"client_id"`
	}
	must(t, json.NewDecoder(resp.Body).Decode(&made))
	_ = resp.Body.Close()
	const verifier = "a-verifier-that-is-long-enough-for-rfc-7636-abc"
	sum := sha256.Sum256([]byte(verifier))
	start = d.URL() + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {made.ID}, "redirect_uri": {elsewhere + "/callback"}, "state": {"s"}, "scope": {"browser"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "resource": {d.URL() + "/mcp"},
	}.Encode()

	d.enter(principal.RoleAdmin)
	d.browser.open(elsewhere + "/")
	d.await(`location.pathname === "/console/authorize" && document.readyState === "complete"`)
	d.says("Chat <b>bold</b> asks to be let in", "its own word alone", "use web pages in a browser of its own", "see the screen, and use mouse and keyboard")
	if got := d.value(`[...document.querySelectorAll("[name=tool]:checked")].map(e => e.value).join()`); got != "node" {
		t.Errorf("chosen at first: %s", got)
	}
	d.shots("authorize")
	must(t, d.run(`document.querySelector("[name=tool][value=browser]").click(); document.querySelector("button[value=allow]").click(); 1`, nil))
	d.await(`document.title === "client"`)
	back := <-codes
	if back.Get("state") != "s" || back.Get("iss") != d.URL() {
		t.Errorf("sent back with %v", back)
	}
	got, err := http.PostForm(d.URL()+"/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {back.Get("code")}, "client_id": {made.ID}, "code_verifier": {verifier},
	})
	must(t, err)
	_ = got.Body.Close()
	if got.StatusCode != http.StatusOK {
		t.Errorf("the code is worth nothing: %d", got.StatusCode)
	}
	d.goTo("/console/tokens")
	d.says("chat-b-bold-b", "registered by itself", "browser,node", d.URL()+"/mcp")
	d.goTo("/console/clients")
	d.says("registered itself", "a person let it in", "fetched its tokens")
	d.shots("clients")

	// Said no, the client is told so; asked for what there is not, the person is.
	d.browser.open(elsewhere + "/")
	d.await(`location.pathname === "/console/authorize" && document.readyState === "complete"`)
	must(t, d.run(`document.querySelector("button[value=deny]").click(); 1`, nil))
	d.await(`document.title === "client"`)
	if no := <-codes; no.Get("error") != "access_denied" || no.Get("code") != "" {
		t.Errorf("sent back with %v", no)
	}
	start = strings.Replace(start, "callback", "elsewhere", 1)
	d.browser.open(elsewhere + "/")
	d.await(`location.pathname === "/console/authorize" && document.body.innerText.includes("not an address of its own")`)
}
