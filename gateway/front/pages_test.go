package front_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/front"
)

// A page of an origin that the admin named may ask what clients ask, read the answers, and nothing
// else; a page of another origin may ask nothing.
func TestClientsInPages(t *testing.T) {
	const page, other = "https://chat.example", "https://evil.example"
	s, err := front.New(front.Options{Addr: "127.0.0.1:0", Tokens: nobody{}, Pages: []string{page}})
	if err != nil {
		t.Fatal(err)
	}
	says := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "answer") })
	s.Handle("/mcp", front.Client, says)
	s.Handle("/mcp/l/{lane...}", front.Client, says)
	s.Handle("POST /oauth/token", front.Shared, says)
	s.Handle("GET /.well-known/oauth-protected-resource/{path...}", front.Shared, says)
	s.Handle("POST /console/login", front.Open, says)
	s.Handle("/v1/calls", front.Bearer, says)
	ask := func(method, path, origin string, headers ...string) (*http.Response, string) {
		t.Helper()
		r := httptest.NewRequest(method, "http://localhost"+path, nil)
		r.Header.Set("Origin", origin)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Result(), w.Body.String()
	}
	const wants = "Access-Control-Request-Method"
	for _, c := range []struct {
		method, path, asks string
		open               bool // without a token
	}{
		{"POST", "/mcp", "POST", false}, {"GET", "/mcp/l/work", "GET", false}, {"DELETE", "/mcp", "DELETE", false},
		{"POST", "/oauth/token", "POST", true}, {"GET", "/.well-known/oauth-protected-resource/mcp", "GET", true},
	} {
		may, _ := ask("OPTIONS", c.path, page, wants, c.asks, "Access-Control-Request-Headers", "authorization,mcp-protocol-version")
		h := may.Header
		if may.StatusCode != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != page || h.Get("Access-Control-Allow-Methods") != c.asks ||
			!strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d %v", c.path, may.StatusCode, h)
		}
		got, body := ask(c.method, c.path, page)
		if got.Header.Get("Access-Control-Allow-Origin") != page || got.Header.Get("Vary") != "Origin" ||
			!strings.Contains(got.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
			t.Errorf("%s: the page cannot read the answer: %v", c.path, got.Header)
		}
		if want := http.StatusUnauthorized; !c.open && got.StatusCode != want || c.open && body != "answer" {
			t.Errorf("%s: %d %s", c.path, got.StatusCode, body)
		}
		for _, origin := range []string{other, "null", "http://chat.example", page + ":444", page + ".evil.example", strings.ToUpper(page)} {
			for _, method := range []string{c.method, "OPTIONS"} {
				if got, _ := ask(method, c.path, origin, wants, c.asks); got.StatusCode != http.StatusForbidden || got.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s from %s: %d %v", c.path, origin, got.StatusCode, got.Header)
				}
			}
		}
	}
	for _, c := range [][3]string{
		{"POST", "/console/login", "POST"}, {"GET", "/v1/calls", "GET"}, {"GET", "/oauth/token", "GET"}, {"PUT", "/mcp", "PUT"}, {"GET", "/mcpx", "GET"},
		{"GET", "/", "GET"},
	} {
		for _, method := range []string{c[0], "OPTIONS"} {
			if got, body := ask(method, c[1], page, wants, c[2]); got.StatusCode != http.StatusForbidden || got.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s: %d %s", method, c[1], got.StatusCode, body)
			}
		}
	}
	// A name that was rebound to us is nobody's page.
	r := httptest.NewRequest("POST", "http://evil.example/oauth/token", nil)
	r.Header.Set("Origin", page)
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("by a foreign name: %d", w.Code)
	}
	for _, bad := range []string{"*", "null", "https://chat.example/", "https://chat.example/a", "ftp://chat.example", "https://a:b@chat.example", "http://chat.example"} {
		if _, err := front.New(front.Options{Addr: "127.0.0.1:0", Tokens: nobody{}, Pages: []string{bad}}); err == nil {
			t.Errorf("%s is an origin of pages", bad)
		}
	}
	if _, err := front.New(front.Options{Addr: "127.0.0.1:0", Tokens: nobody{}, Pages: []string{"http://localhost:6274", "http://127.0.0.1:1"}}); err != nil {
		t.Error(err)
	}
}
