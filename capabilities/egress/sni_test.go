package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// hello is the first message of a TLS client that means a server.
func hello(t *testing.T, name string) []byte {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan []byte, 1)
	go func() {
		var all bytes.Buffer
		_, _, _ = helloOf(io.TeeReader(there, &all))
		_ = there.Close()
		done <- all.Bytes()
	}()
	_ = tls.Client(here, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	return <-done
}

// A stream goes on whole unless it begins TLS for another host than its tunnel's.
func TestATunnelIsToOneHost(t *testing.T) {
	for _, c := range []struct {
		host  string
		first []byte
		ok    bool
		named string
	}{
		{"api.example", hello(t, "api.example"), true, ""},
		{"API.example.", hello(t, "api.example"), true, ""},
		{"api.example", hello(t, "other.example"), false, "other.example"},
		{"api.example", hello(t, "api.example.evil.example"), false, "api.example.evil.example"},
		{"api.example", hello(t, ""), false, ""},
		{"nas", hello(t, ""), true, ""},
		{"nas", hello(t, "other.example"), false, "other.example"},
		{"10.0.0.7", hello(t, "nas.lan"), true, ""},
		{"api.example", []byte("SSH-2.0-x\r\n"), true, ""},
		{"api.example", []byte("GET / HTTP/1.1\r\n"), true, ""},
		{"api.example", []byte{recordHandshake, 3, 1, 0, 4, 1, 2, 3, 4}, false, ""},
		{"api.example", []byte{recordHandshake}, false, ""},
	} {
		for _, slow := range []bool{false, true} {
			no := errors.New("no")
			var named []string
			var from io.Reader = io.MultiReader(bytes.NewReader(c.first), strings.NewReader("and more"))
			if slow {
				from = &byByte{from}
			}
			b := newBound(c.host, from, func(name string) error { named = append(named, name); return no })
			var to bytes.Buffer
			_, err := io.Copy(&to, b)
			if c.ok && (err != nil || to.String() != string(c.first)+"and more" || len(named) > 0) {
				t.Errorf("%s, %q: %v, %d bytes, refused %q", c.host, c.first[:1], err, to.Len(), named)
			}
			if !c.ok && (!errors.Is(err, no) || to.Len() > 0 || len(named) != 1 || named[0] != c.named) {
				t.Errorf("%s, %q: %v, %d bytes, refused %q, want %q", c.host, c.first[:1], err, to.Len(), named, c.named)
			}
		}
	}
}

// byByte returns a byte at a time, as a slow client sends them.
type byByte struct{ io.Reader }

func (b *byByte) Read(p []byte) (int, error) { return b.Reader.Read(p[:min(1, len(p))]) }

// A program's tunnel to a host, and its connection to the address that stands for one, carry TLS
// for that host; for another one they end before anything was sent, and that is on record.
func TestADoorsTunnelIsToOneHost(t *testing.T) {
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "origin") }))
	defer origin.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(origin.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	host := "localhost:" + port
	w, err := NewWay([]string{host}, "--net")
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, ok := range map[string]bool{"localhost": true, "fronted.example": false} {
		c := through(t, d, d.Addr())
		if _, err := io.WriteString(c, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
		if _, err := io.ReadFull(c, answer); err != nil {
			t.Fatal(err)
		}
		err := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).HandshakeContext(t.Context())
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r := w.Refused(); len(r) != 1 || r[0].Target != "fronted.example:"+port || !strings.Contains(r[0].Why, host) {
		t.Errorf("%+v", r)
	}
}

// A program that takes no proxy is led to each host that was named by name, at its ports, by an
// address that stands for it.
func TestAddressesThatStandForNames(t *testing.T) {
	w, err := NewWay([]string{"10.1.2.3:8080", "api.example", "*.wide.example", "db.example:5432", "localhost:7"}, "--net")
	if err != nil {
		t.Fatal(err)
	}
	d := &Door{way: w}
	want := []string{"10.1.2.3:8080", "198.18.0.2:80", "198.18.0.2:443", "198.18.0.4:5432", "127.0.0.1:7"}
	var got []string
	for _, a := range d.Direct() {
		got = append(got, a.String())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%v, want %v", got, want)
	}
	names := d.Names()
	if len(names) != 2 || names["api.example"] != netip.MustParseAddr("198.18.0.2") || names["db.example"] != netip.MustParseAddr("198.18.0.4") {
		t.Errorf("%v", names)
	}
	for at, want := range map[string]string{
		"198.18.0.2:443": "api.example:443", "198.18.0.4:5432": "db.example:5432", "10.1.2.3:8080": "10.1.2.3:8080", "198.18.0.3:80": "198.18.0.3:80",
		"198.18.0.2:22": "api.example:22",
	} {
		if got := net.JoinHostPort(d.target(netip.MustParseAddrPort(at))); got != want {
			t.Errorf("%s is %s, want %s", at, got, want)
		}
	}
	d.Tried(netip.MustParseAddrPort("198.18.0.2:22"))
	if r := w.Refused(); len(r) != 1 || r[0].Target != "api.example:22" || r[0].Flag != "--net api.example:22" {
		t.Errorf("%+v", r)
	}
}
