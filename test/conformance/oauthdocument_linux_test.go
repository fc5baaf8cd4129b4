package conformance

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/oauth"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// The official client with a document at an address of its own, over TLS: it registers nowhere, and
// the person is told whose document that is. The authority of that address has to be one of the
// system's, so the test runs itself where it is.
func TestOAuthClientKnownByItsDocument(t *testing.T) {
	const again = "HANDRAIL_TEST_KNOWS_THE_AUTHORITY"
	dir := packages(t)
	chat := httptest.NewUnstartedServer(nil)
	at := "https://" + chat.Listener.Addr().String() + "/client.json"
	chat.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"client_id": at, "client_name": "Chat", "redirect_uris": []string{"http://127.0.0.1:43117/callback"}, "token_endpoint_auth_method": "none",
		})
	})
	chat.StartTLS()
	t.Cleanup(chat.Close)
	b := startBehind(t, func(o *gateway.Options) { o.ClientHosts = []string{chat.Listener.Addr().String()} })
	if os.Getenv(again) == "" {
		// Of an authority that the system does not know, no document counts.
		if a, err := b.Clients.Read(t.Context(), b.base, url.Values{"client_id": {at}, "redirect_uri": {"http://127.0.0.1:43117/callback"}}.Encode()); err == nil {
			t.Errorf("%+v is believed", a.Client)
		}
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOAuthClientKnownByItsDocument$", "-test.v")
		child.Env = append(os.Environ(), again+"=1", "SSL_CERT_FILE="+b.authority())
		if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestOAuthClientKnownByItsDocument") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	seen := b.comesIn(dir, at)
	if seen[oauth.Registered] || !seen[oauth.Fetched] || !seen[oauth.Refreshed] {
		t.Errorf("%v", seen)
	}
	if list := b.Tokens.List(); !slices.ContainsFunc(list, func(tok principal.Token) bool {
		return tok.Client == "Chat ("+chat.Listener.Addr().String()+")" && tok.Audience == b.base+"/mcp"
	}) {
		t.Errorf("%+v", list)
	}
}
