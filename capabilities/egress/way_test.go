package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// names answers for a few names, and may answer otherwise later.
type names map[string][]string

func (n names) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, a := range n[host] {
		all = append(all, netip.MustParseAddr(a))
	}
	if all == nil {
		return nil, errors.New("no such host")
	}
	return all, nil
}

func mustWay(t *testing.T, hosts ...string) *Way {
	t.Helper()
	w, err := NewWay(hosts, "--net")
	if err != nil {
		t.Fatal(err)
	}
	w.rules.links = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.IPv4(192, 168, 7, 7), Mask: net.CIDRMask(24, 32)}}, nil
	}
	return w
}

// A way leads to the hosts that were named and to nothing else: neither another host, port or
// address, nor another place that an answer for a name makes of it.
func TestWayReachesWhatWasNamed(t *testing.T) {
	w := mustWay(t, "API.example", "*.cdn.example", "odd.example:8443", "127.0.0.1:8080", "10.1.2.3", "nas.lan", "localhost:9000", "[::1]:70", "turn.example")
	n := names{
		"api.example": {"8.8.8.8"}, "a.cdn.example": {"8.8.4.4"}, "cdn.example": {"8.8.4.4"}, "b.cdn.example": {"10.0.0.1"}, "odd.example": {"9.9.9.9"}, "other.example": {"8.8.8.8"},
		"nas.lan": {"192.168.7.20"}, "turn.example": {"8.8.8.8", "169.254.169.254"},
	}
	w.rules.Lookup = n.lookup
	for _, c := range []struct {
		target string
		code   capabilities.Code
		flag   string
	}{
		{"api.example:443", "", ""}, {"API.Example.:443", "", ""}, {"api.example:80", "", ""},
		{"api.example:8443", capabilities.CodeURLBlocked, "--net api.example:8443"},
		{"a.cdn.example:443", "", ""}, {"cdn.example:443", "", ""},
		{"b.cdn.example:443", capabilities.CodeURLBlocked, ""},
		{"odd.example:8443", "", ""}, {"odd.example:443", capabilities.CodeURLBlocked, "--net odd.example"},
		{"other.example:443", capabilities.CodeURLBlocked, "--net other.example"},
		{"127.0.0.1:8080", "", ""}, {"[::ffff:127.0.0.1]:8080", "", ""}, {"127.0.0.1:8081", capabilities.CodeURLBlocked, "--net 127.0.0.1:8081"},
		{"10.1.2.3:443", "", ""}, {"10.1.2.4:443", capabilities.CodeURLBlocked, "--net 10.1.2.4"},
		{"nas.lan:443", "", ""}, {"localhost:9000", "", ""}, {"127.0.0.1:9000", "", ""}, {"localhost:9001", capabilities.CodeURLBlocked, "--net localhost:9001"},
		{"[::1]:70", "", ""}, {"[::1]:71", capabilities.CodeURLBlocked, "--net [::1]:71"},
		{"turn.example:443", capabilities.CodeURLBlocked, ""}, {"169.254.169.254:80", capabilities.CodeURLBlocked, "--net 169.254.169.254"},
		{"api.example.evil.example:443", capabilities.CodeURLBlocked, "--net api.example.evil.example"},
	} {
		host, port, err := net.SplitHostPort(c.target)
		if err != nil {
			t.Fatal(err)
		}
		_, addrs, err := w.resolve(t.Context(), host, port)
		if capabilities.CodeOf(err) != c.code || (err == nil) != (len(addrs) > 0) {
			t.Errorf("%s: %v, %v", c.target, addrs, err)
		}
		if err != nil && w.Refused()[0].Flag != c.flag {
			t.Errorf("%s: allowed by %q, want %q", c.target, w.Refused()[0].Flag, c.flag)
		}
	}
	// An answer that changes: what was the internet is now this machine, its neighbour's service
	// that hands out keys, or an address that only this machine has.
	for _, turned := range []string{"127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "0.0.0.0", "192.168.7.7"} {
		n["api.example"] = []string{turned}
		if _, addrs, err := w.resolve(t.Context(), "api.example", "443"); capabilities.CodeOf(err) != capabilities.CodeURLBlocked {
			t.Errorf("api.example is %s now: %v, %v", turned, addrs, err)
		}
	}
	for _, bad := range []string{"", "a b", "http://a.example", "a.example/x", "*", "*.com", "a.example:0", "a.example:65536", "a.example:080", "user@a.example", "*.10.0.0.1:x"} {
		if _, err := NewWay([]string{bad}, "--net"); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for i := range 3 * maxRefused {
		_ = w.Check("h"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+".example", "443")
	}
	if n := len(w.Refused()); n > maxRefused {
		t.Errorf("%d refusals are kept", n)
	}
}

// A client by a way: each hop of a redirect is checked, credentials go to their own origin alone,
// and a long answer ends where the bound is.
func TestTransport(t *testing.T) {
	secret := func(r *http.Request) error { r.Header.Set("Authorization", "Bearer s3cret"); return nil }
	var seen []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, "other "+r.Header.Get("Authorization"))
	}))
	defer other.Close()
	forbidden := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	defer forbidden.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, "api "+r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/other":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		case "/forbidden":
			http.Redirect(w, r, forbidden.URL, http.StatusFound)
		case "/open":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/long":
			for range 100 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}
	}))
	defer api.Close()
	at, err := url.Parse(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := url.Parse(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWay([]string{HostOf(at), HostOf(elsewhere)}, "--net")
	if err != nil {
		t.Fatal(err)
	}
	by := w.Transport(TransportOptions{Origin: at, Credentials: secret, MaxBytes: 1 << 20})
	defer by.CloseIdleConnections()
	client := &http.Client{Transport: by}
	get := func(path string) (int64, error) {
		res, err := client.Get(api.URL + path)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		return io.Copy(io.Discard, res.Body)
	}
	if _, err := get("/other"); err != nil || len(seen) != 2 || seen[0] != "api Bearer s3cret" || seen[1] != "other " {
		t.Errorf("%q %v", seen, err)
	}
	for _, path := range []string{"/metadata", "/forbidden"} {
		if _, err := get(path); capabilities.CodeOf(err) != capabilities.CodeURLBlocked {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n, err := get("/long"); n != 1<<20 || capabilities.CodeOf(err) != capabilities.CodeResultTooLarge {
		t.Errorf("%d bytes, %v", n, err)
	}
	reading := make(chan error, 1)
	stream, err := client.Get(api.URL + "/open")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	go func() {
		_, err := io.Copy(io.Discard, stream.Body)
		reading <- err
	}()
	w.Hold(true) // what is open ends, and nothing goes out by a connection from before
	if err := <-reading; err == nil {
		t.Error("an open answer ended as if it were whole")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Dial(ctx, "tcp", HostOf(at)); err == nil {
		t.Error("a stopped node connects")
	}
	before := len(seen)
	if r, err := http.NewRequestWithContext(ctx, http.MethodGet, api.URL+"/late", http.NoBody); err != nil {
		t.Fatal(err)
	} else if res, err := client.Do(r); err == nil {
		_ = res.Body.Close()
		t.Error("a stopped node sends a request")
	}
	if len(seen) != before {
		t.Errorf("%q", seen[before:])
	}
}
