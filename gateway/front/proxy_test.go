package front_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/front"
)

// Only a trusted proxy is believed about whom it serves, and nothing behind the door
// sees what anybody said about it.
func TestForwardedHeadersAreTheProxysOnly(t *testing.T) {
	proxies, err := front.ParseProxies([]string{"10.0.0.2", "10.1.0.0/16", "2001:db8::/64", "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.RemoteAddr
		for name := range r.Header {
			if strings.HasPrefix(name, "X-") || name == "Forwarded" {
				t.Errorf("%s reached the handler", name)
			}
		}
		w.WriteHeader(http.StatusNoContent)
	})
	for _, c := range []struct {
		about, from string
		proxies     []netip.Prefix
		tls         bool
		headers     []string
		want        string // "": refused
	}{
		{"no proxy, lying", "127.0.0.1:5", nil, false, []string{"X-Forwarded-For", "192.0.2.1"}, "127.0.0.1:5"},
		{"no proxy, lying in every way", "127.0.0.1:5", nil, false, []string{"X-Real-Ip", "192.0.2.1", "Forwarded", "for=192.0.2.1", "True-Client-Ip", "192.0.2.1", "X-Forwarded-Proto", "https"}, "127.0.0.1:5"},
		{"somebody beside the proxy", "10.0.0.3:5", proxies, false, []string{"X-Forwarded-For", "192.0.2.1"}, ""},
		{"the same over our own TLS, lying", "10.0.0.3:5", proxies, true, []string{"X-Forwarded-For", "192.0.2.1"}, "10.0.0.3:5"},
		{"the proxy", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1:0"},
		{"the proxy, mapped", "[::ffff:10.0.0.2]:5", proxies, false, []string{"X-Forwarded-For", "::ffff:192.0.2.1"}, "192.0.2.1:0"},
		{"the client lies to the proxy", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", "127.0.0.1, 192.0.2.1"}, "192.0.2.1:0"},
		{"two proxies", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", "203.0.113.9, 192.0.2.1, 10.1.2.3"}, "192.0.2.1:0"},
		{"in two headers", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", "203.0.113.9", "X-Forwarded-For", "192.0.2.1"}, "192.0.2.1:0"},
		{"with a port", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", "192.0.2.1:99"}, "192.0.2.1:0"},
		{"IPv6", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", "[2001:db8:1::9]:99"}, "[2001:db8:1::9]:0"},
		{"nonsense", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", "127.0.0.1, <script>"}, "unknown"},
		{"nothing", "10.0.0.2:5", proxies, false, nil, "unknown"},
		{"a program of this host", "127.0.0.1:5", proxies, false, nil, "unknown"},
		{"proxies only", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", strings.Repeat("10.1.0.1,", 500) + "10.1.0.1"}, "unknown"},
		{"without TLS before the proxy", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "http"}, ""},
		{"with it", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https"}, "192.0.2.1:0"},
		{"two answers to that", "10.0.0.2:5", proxies, false, []string{"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https", "X-Forwarded-Proto", "http"}, ""},
	} {
		s, err := front.New(front.Options{Tokens: nobody{}, Proxies: c.proxies, Hosts: []string{"handrail.example"}})
		if err != nil {
			t.Fatal(err)
		}
		s.Handle("/open", front.Open, handler)
		r := httptest.NewRequest(http.MethodGet, "/open", nil)
		r.Host, r.RemoteAddr = "handrail.example", c.from
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Add(c.headers[i], c.headers[i+1])
		}
		got = ""
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if got != c.want {
			t.Errorf("%s: from %q, want %q (%d %s)", c.about, got, c.want, w.Code, w.Body)
		}
	}
}

// A client behind a proxy has a budget of its own, and no more of it by lying.
func TestFailuresBehindAProxyAreTheClients(t *testing.T) {
	proxies, err := front.ParseProxies([]string{"10.0.0.2"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := front.New(front.Options{Tokens: nobody{}, Proxies: proxies})
	if err != nil {
		t.Fatal(err)
	}
	s.Handle("/x", front.Bearer, http.NotFoundHandler())
	guess := func(hops string) int {
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.Host, r.RemoteAddr = "localhost", "10.0.0.2:9"
		r.Header.Set("X-Forwarded-For", hops)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	limited := 0
	for i := range 30 {
		if guess(fmt.Sprintf("198.51.100.%d, 192.0.2.1", i)) == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 15 {
		t.Errorf("%d of 30 were limited", limited)
	}
	if got := guess("192.0.2.2"); got != http.StatusUnauthorized {
		t.Errorf("another client of the proxy: %d", got)
	}
}

func TestParseProxiesRefuses(t *testing.T) {
	for _, text := range []string{"", "0.0.0.0/0", "::/0", "10.0.0.0/7", "proxy.example", "10.0.0.2:80", "fe80::1%eth0", "::ffff:0.0.0.0/96"} {
		if got, err := front.ParseProxies([]string{text}); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	if got, err := front.ParseProxies([]string{"10.0.0.9/8", "::ffff:10.0.0.2", "fd00::1"}); err != nil || len(got) != 3 || got[0].String() != "10.0.0.0/8" || got[1].String() != "10.0.0.2/32" {
		t.Errorf("%v %v", got, err)
	}
}
