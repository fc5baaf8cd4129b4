package egress

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Each usual reason that a server is not reached has a sentence, and none holds the address.
func TestWhyAServerIsNotReached(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}
	}}
	client := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Resolver: resolver}).DialContext}}
	ended, end := context.WithTimeout(t.Context(), 0)
	defer end()
	for at, says := range map[string]string{
		gone.URL: "refused",
		strings.Replace(plain.URL, "http:", "https:", 1): "TLS",
		secure.URL:                    "certificate",
		plain.URL:                     "in time",
		"http://key@nowhere.invalid/": "name",
	} {
		ctx := t.Context()
		if at == plain.URL {
			ctx = ended
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
			t.Fatalf("%s answers", at)
		}
		if why := Unreached(err); !strings.Contains(why, says) || strings.Contains(why, "127.0.0.1") || strings.Contains(why, "nowhere") {
			t.Errorf("%s: %q of %v", at, why, err)
		}
	}
}
