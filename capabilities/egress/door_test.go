package egress

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// through connects to a door as the program that it is for.
func through(t *testing.T, d *Door, to netip.AddrPort) net.Conn {
	t.Helper()
	socket, err := net.Listen("tcp4", "127.0.0.1:0") // a port that is free
	if err != nil {
		t.Fatal(err)
	}
	from := socket.Addr().(*net.TCPAddr)
	_ = socket.Close()
	d.Expect(from.AddrPort(), to)
	c, err := (&net.Dialer{LocalAddr: from}).DialContext(t.Context(), "tcp", d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func asked(t *testing.T, c net.Conn, request string) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// The door takes requests and tunnels of its own program to what was named, says what it refuses
// and how that is allowed, and has nothing for anybody else.
func TestDoor(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("headers of the hop went on")
		}
		_, _ = io.WriteString(w, "origin")
	}))
	defer origin.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	defer other.Close()
	at, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWay([]string{at.Host}, "--net")
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()

	if res, body := asked(t, through(t, d, d.Addr()), "GET "+origin.URL+"/ HTTP/1.1\r\nHost: "+at.Host+"\r\nProxy-Authorization: x\r\nConnection: close\r\n\r\n"); res.StatusCode != http.StatusOK || body != "origin" {
		t.Errorf("%d %q", res.StatusCode, body)
	}
	tunnel := through(t, d, d.Addr())
	in := bufio.NewReader(tunnel)
	if _, err := io.WriteString(tunnel, "CONNECT "+at.Host+" HTTP/1.1\r\nHost: "+at.Host+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if res, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect}); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	if _, err := io.WriteString(tunnel, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(in); err != nil || !strings.HasSuffix(string(all), "origin") {
		t.Errorf("%q %v", all, err)
	}
	to, err := netip.ParseAddrPort(at.Host)
	if err != nil || len(d.Direct()) != 1 || d.Direct()[0] != to {
		t.Errorf("direct: %v %v", d.Direct(), err)
	}
	if res, body := asked(t, through(t, d, to), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); res.StatusCode != http.StatusOK || body != "origin" {
		t.Errorf("without a proxy: %d %q", res.StatusCode, body)
	}
	for _, request := range []string{"GET " + other.URL + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "CONNECT " + strings.TrimPrefix(other.URL, "http://") + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"} {
		res, body := asked(t, through(t, d, d.Addr()), request)
		if flag := "--net " + strings.TrimPrefix(other.URL, "http://"); res.StatusCode != http.StatusForbidden || !strings.Contains(body, flag) || w.Refused()[0].Flag != flag {
			t.Errorf("%d %q %+v", res.StatusCode, body, w.Refused())
		}
	}
	d.Tried(netip.MustParseAddrPort("93.184.216.34:443"))
	if r := w.Refused()[0]; r.Target != "93.184.216.34:443" || r.Flag != "--net 93.184.216.34" {
		t.Errorf("%+v", r)
	}

	// Somebody else of this machine.
	stranger, err := net.Dial("tcp", d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := io.WriteString(stranger, "GET "+origin.URL+"/ HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(stranger); len(b) > 0 {
		t.Errorf("a stranger was told %q, %v", b, err)
	}

	// The stop cuts what is open.
	open := through(t, d, d.Addr())
	if _, err := io.WriteString(open, "CONNECT "+at.Host+" HTTP/1.1\r\nHost: "+at.Host+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(open), &http.Request{Method: http.MethodConnect}); err != nil {
		t.Fatal(err)
	}
	w.Hold(true)
	if n, err := open.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes after the stop", n)
	}
	w.Hold(false)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
