package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestScanMessage(t *testing.T) {
	for in, want := range map[string]message{
		`{"id":7,"result":{"a":"}\"]"},"sessionId":"S"}`:      {id: 7, session: "S", result: []byte(`{"a":"}\"]"}`)},
		`{"method":"Page.x","params":{}}`:                     {method: "Page.x", result: []byte(`{}`)},
		` { "id" : 1 , "error" : {"code":-1,"message":"m"} }`: {id: 1, fault: []byte(`{"code":-1,"message":"m"}`)},
	} {
		m, err := scanMessage([]byte(in))
		if err != nil || m.id != want.id || m.method != want.method || m.session != want.session ||
			!bytes.Equal(m.result, want.result) || !bytes.Equal(m.fault, want.fault) {
			t.Errorf("%s: %+v, %v", in, m, err)
		}
	}
	for _, in := range []string{``, `{`, `[]`, `{}`, `{"id":"x"}`, `{"id":1}x`, `{"id":1,}`, `{"method":"a\u0062"}`, `{"id":1,"result":{"a"}`, `{"id":1,"result":"\`, `nul`} {
		if m, err := scanMessage([]byte(in)); err == nil || m.id != 0 || m.result != nil {
			t.Errorf("%s: %+v, %v; want nothing and an error", in, m, err)
		}
	}
}

// What is valid JSON comes out as encoding/json sees it; nothing panics.
func FuzzScanMessage(f *testing.F) {
	for _, seed := range []string{`{"id":1,"result":{"a":[1,"\\\""]}}`, `{"method":"m","params":{},"sessionId":"s"}`, `{"id":1,"error":{}}`, `{"id":`, `{"id":1,"result":"\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := scanMessage(b)
		if err != nil {
			if m.id != 0 || m.method != "" || m.result != nil {
				t.Fatal("a value came with an error")
			}
			return
		}
		var want struct {
			Result json.RawMessage `json:"result"`
			Params json.RawMessage `json:"params"`
			Keys   map[string]any  `json:"-"`
		}
		if !json.Valid(b) || bytes.Count(b, []byte("result"))+bytes.Count(b, []byte("params")) > 1 || bytes.Contains(b, []byte(`\u`)) || json.Unmarshal(b, &want) != nil {
			return
		}
		if got := append(want.Result, want.Params...); got != nil && m.result != nil && !bytes.Equal(bytes.TrimSpace(got), m.result) {
			t.Fatalf("%s: parts %q, want %q", b, m.result, got)
		}
	})
}

func FuzzUnescape(f *testing.F) {
	f.Add("ü\U0001F642\"\\\n日本")
	f.Fuzz(func(t *testing.T, s string) {
		escaped := []byte{'"'}
		for _, r := range s { // as Chrome writes it: everything but ASCII escaped
			q, _ := json.Marshal(string(r))
			if r < 0x80 {
				escaped = append(escaped, q[1:len(q)-1]...)
				continue
			}
			for _, u := range utf16Units(r) {
				escaped = append(escaped, []byte(`\u`+hex4(u))...)
			}
		}
		escaped = append(escaped, '"')
		var want, got string
		if json.Unmarshal(escaped, &want) != nil {
			t.Skip()
		}
		if err := json.Unmarshal(unescape(escaped), &got); err != nil || got != want {
			t.Fatalf("%s became %s (%v)", escaped, unescape(escaped), err)
		}
	})
}

func utf16Units(r rune) []rune {
	if r < 0x10000 {
		return []rune{r}
	}
	r -= 0x10000
	return []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff}
}

func hex4(r rune) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]})
}

// fakeChrome answers on the other end of the pipe.
func fakeChrome(t *testing.T, answer func(request string) []string) (*conn, func()) {
	toChrome, w := io.Pipe()
	r, fromChrome := io.Pipe()
	c := newConn(w)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.run(r, func(string, []byte) {})
		w.Close()
	}()
	go func() {
		br := bufio.NewReader(toChrome)
		for {
			request, err := br.ReadString(0)
			if err != nil {
				return
			}
			for _, a := range answer(strings.TrimSuffix(request, "\x00")) {
				if a == "EOF" {
					fromChrome.Close()
					return
				}
				io.WriteString(fromChrome, a+"\x00")
			}
		}
	}()
	return c, func() { fromChrome.Close(); <-ended; toChrome.Close() }
}

func TestConn(t *testing.T) {
	var held []string
	c, stop := fakeChrome(t, func(request string) []string {
		var m struct {
			ID     int64 `json:"id"`
			Method string
		}
		json.Unmarshal([]byte(request), &m)
		id := string(json.RawMessage(mustJSON(m.ID)))
		switch {
		case strings.Contains(request, "first"): // answered after the second
			held = []string{`{"id":` + id + `,"result":{"result":{"type":"number","value":1}}}`}
			return nil
		case strings.Contains(request, "second"):
			return append([]string{`{"id":` + id + `,"result":{"result":{"type":"number","value":2}}}`, `{"method":"Nobody.cares","params":{}}`, `{"id":999,"result":{}}`}, held...)
		case strings.Contains(request, "refuse"):
			return []string{`{"id":` + id + `,"error":{"code":-32000,"message":"no"}}`}
		}
		return []string{"EOF"}
	})
	defer stop()
	ctx := t.Context()
	ask := func(e string) reply[runtime.EvaluateResult] {
		return start(ctx, c.root(), runtime.Evaluate, runtime.EvaluateParams{Expression: e})
	}
	first, second := ask("first"), ask("second")
	if r, err := first.get(ctx); err != nil || string(r.Result.Value) != "1" {
		t.Fatal(r, err)
	}
	if r, err := second.get(ctx); err != nil || string(r.Result.Value) != "2" {
		t.Fatal(r, err)
	}
	var refused *protocolError
	if _, err := ask("refuse").get(ctx); !errors.As(err, &refused) || refused.message != "no" {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	p := ask("first")
	if _, err := p.get(gone); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	open := ask("first")
	ask("end")
	if _, err := open.get(ctx); !errors.Is(err, errConnClosed) {
		t.Fatal(err)
	}
	if _, err := ask("later").get(ctx); !errors.Is(err, errConnClosed) {
		t.Fatal(err)
	}
}

func mustJSON(v any) []byte { b, _ := json.Marshal(v); return b }

func TestMessageBound(t *testing.T) {
	in := messages{r: io.MultiReader(strings.NewReader("ab\x00"), zeros{})}
	if b, err := in.next(); err != nil || string(b) != "ab" {
		t.Fatal(b, err)
	}
	if _, err := in.next(); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Fatal("an endless message was read:", err)
	}
}

// However the stream is cut, its messages are the same, and each is the caller's.
func TestMessages(t *testing.T) {
	buffer := len(messages{}.buf)
	random := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		var sent [][]byte
		var stream []byte
		for range 1 + random.IntN(12) {
			n := random.IntN(300)
			switch random.IntN(4) {
			case 0: // about as large as the buffer
				n = buffer - 2 + random.IntN(5)
			case 1:
				n = random.IntN(6 * buffer)
			}
			m := make([]byte, n)
			for i := range m {
				m[i] = byte(1 + random.IntN(255))
			}
			sent = append(sent, m)
			stream = append(append(stream, m...), 0)
		}
		stream = append(stream, "cut of"...)
		most := []int{1, 100, buffer, 3 * buffer}[random.IntN(4)]
		in := messages{r: &pieces{rest: stream, next: func() int { return 1 + random.IntN(most) }}}
		var got [][]byte
		var err error
		for err == nil {
			var m []byte
			if m, err = in.next(); err == nil {
				got = append(got, m)
			}
		}
		if err != io.EOF || !slices.EqualFunc(sent, got, bytes.Equal) {
			t.Fatalf("%d messages became %d (%v), pieces of at most %d", len(sent), len(got), err, most)
		}
	}
}

// pieces gives its bytes in pieces of the lengths that next says.
type pieces struct {
	rest []byte
	next func() int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.next())], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// zeros never gives a zero byte, endlessly.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestNotPublic(t *testing.T) {
	for addr, want := range map[string]string{
		"8.8.8.8": "", "93.184.216.34": "", "2606:4700::1111": "", "64:ff9b::808:808": "",
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"10.1.2.3": "private", "192.168.0.1": "private", "172.16.0.1": "private", "100.64.0.1": "private", "fd00::1": "private", "fec0::1": "private",
		"169.254.1.1": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local",
		"169.254.169.254": "a metadata service", "fd00:ec2::254": "a metadata service", "168.63.129.16": "a metadata service",
		"0.0.0.0": "reserved", "::": "reserved", "255.255.255.255": "reserved", "224.0.0.1": "multicast", "ff02::1": "multicast",
		"64:ff9b::7f00:1": "loopback", "64:ff9b::a9fe:a9fe": "a metadata service", "2002:7f00:1::": "loopback", "2002:a00:1::": "private", "::7f00:1": "loopback",
		"2001:db8::1": "reserved", "192.0.2.1": "reserved", "192.88.99.1": "reserved", "3fff::1": "reserved",
		"::ffff:0:10.0.0.1": "reserved", "4000::1": "reserved",
	} {
		if got := notPublic(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is %q, want %q", addr, got, want)
		}
	}
}

// No IPv4 address that is not public becomes public by being wrapped into IPv6.
func TestNotPublicWrapped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4"))
		v4 := netip.AddrFrom4(b)
		want := notPublic(v4) == ""
		wrap := func(prefix ...byte) netip.Addr {
			var a [16]byte
			copy(a[:], prefix)
			copy(a[12:], b[:])
			return netip.AddrFrom16(a)
		}
		var six [16]byte
		six[0], six[1] = 0x20, 0x02
		copy(six[2:], b[:])
		for _, a := range []netip.Addr{wrap(0, 0x64, 0xff, 0x9b), wrap(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), netip.AddrFrom16(six)} {
			if got := notPublic(a) == ""; got && !want {
				t.Fatalf("%s is public, %s is not", a, v4)
			}
		}
	})
}

func TestEgressRules(t *testing.T) {
	r, err := newEgressRules([]string{"http://Intra.Example:8080", "https://10.0.0.5"})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	r.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		asked++
		switch host {
		case "public.example":
			return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
		case "intra.example", "rebind.example":
			return []netip.Addr{netip.MustParseAddr("10.0.0.9")}, nil
		case "mixed.example":
			return []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("127.0.0.1")}, nil
		}
		return nil, errors.New("no such host")
	}
	for _, tc := range []struct {
		host, port string
		code       capabilities.Code
	}{
		{"public.example", "443", ""}, {"PUBLIC.example.", "443", ""}, {"8.8.8.8", "80", ""},
		{"intra.example", "8080", ""}, {"INTRA.example", "8080", ""}, {"intra.example", "80", capabilities.CodeURLBlocked},
		{"10.0.0.5", "443", ""}, {"10.0.0.5", "80", capabilities.CodeURLBlocked},
		{"rebind.example", "443", capabilities.CodeURLBlocked}, {"mixed.example", "443", capabilities.CodeURLBlocked},
		{"localhost", "80", capabilities.CodeURLBlocked}, {"a.localhost.", "80", capabilities.CodeURLBlocked},
		{"::1", "80", capabilities.CodeURLBlocked}, {"nowhere.example", "80", capabilities.CodeNavigationFailed},
	} {
		asked = 0
		addrs, err := r.resolve(t.Context(), tc.host, tc.port)
		if capabilities.CodeOf(err) != tc.code || (err == nil) != (len(addrs) > 0) || asked > 1 {
			t.Errorf("%s:%s: %v, %v (asked %d times)", tc.host, tc.port, addrs, err, asked)
		}
	}
}

// A node with public addresses is no way round the rules for loopback and the
// local network: a page knows them from the request it got.
func TestEgressRulesOwnNetworks(t *testing.T) {
	r, err := newEgressRules([]string{"http://8.8.4.4:8080"})
	if err != nil {
		t.Fatal(err)
	}
	var links []net.Addr
	for _, cidr := range []string{"127.0.0.1/8", "8.8.4.4/24", "2606:4700:1:2::5/64", "9.9.9.9/1"} {
		ip, network, err := net.ParseCIDR(cidr)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, &net.IPNet{IP: ip, Mask: network.Mask})
	}
	unknown := errors.New("no list")
	var failing error
	r.links = func() ([]net.Addr, error) { return links, failing }
	r.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("2606:4700:1:2::77")}, nil
	}
	for host, open := range map[string]bool{
		"8.8.4.4": false, "::ffff:8.8.4.4": false, "64:ff9b::808:404": false, "8.8.4.5": false, "8.8.5.5": true,
		"2606:4700:1:2::5": false, "2606:4700:1:2:ffff::1": false, "2606:4700:1:3::5": true, "neighbour.example": false,
		"9.9.9.9": false, "9.9.9.10": true, // a link of half the internet
	} {
		if _, err := r.resolve(t.Context(), host, "80"); (err == nil) != open {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := r.resolve(t.Context(), "8.8.4.4", "8080"); err != nil {
		t.Errorf("the owner named it: %v", err)
	}
	failing = unknown
	if _, err := r.resolve(t.Context(), "8.8.5.5", "80"); capabilities.CodeOf(err) != capabilities.CodeURLBlocked {
		t.Errorf("without a list of its own networks: %v", err)
	}
}

// A page that tried many hosts must not take the reasons from every later call.
func TestEgressForgetsOldFailures(t *testing.T) {
	e := &egress{failures: map[string]failed{}}
	for i := range maxFailures + 10 {
		why := fmt.Errorf("%d", i)
		host := fmt.Sprintf("h%d.example", i)
		if e.note(host+":80", why); e.failure("http://"+host+"/", time.Time{}) != why {
			t.Fatalf("failure %d was not noted", i)
		}
	}
	if len(e.failures) > maxFailures {
		t.Errorf("%d failures are kept", len(e.failures))
	}
}

// The proxy by itself: what Chrome does not do, another client might.
func TestEgressProxy(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" || r.Header.Get("Proxy-Connection") != "" {
			t.Error("headers of the hop went on")
		}
		io.WriteString(w, "origin")
	}))
	defer origin.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	defer other.Close()
	rules, err := newEgressRules([]string{origin.URL})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10)
	e, err := newEgress(rules, slog.New(slog.DiscardHandler), func(host string) { seen <- host }, func() domains { return nil })
	if err != nil {
		t.Fatal(err)
	}
	e.use(nil)
	defer e.close()
	proxy := &url.URL{Scheme: "http", Host: e.addr()}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	res, err := client.Get(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(res.Body); string(b) != "origin" || <-seen != "127.0.0.1" {
		t.Errorf("got %q", b)
	}
	res.Body.Close()
	if res, err := client.Get(other.URL); err == nil {
		res.Body.Close()
		t.Error("an unnamed origin gave an answer")
	}
	if e.failure(other.URL, time.Time{}) == nil {
		t.Error("the refusal was not noted")
	}
	if res, err := http.Get("http://" + e.addr() + "/"); err != nil || res.StatusCode != http.StatusBadRequest {
		t.Error("a request that is no proxy request:", err)
	} else {
		res.Body.Close()
	}
	e.close()
	e.close()
	if res, err := client.Get(origin.URL); err == nil {
		res.Body.Close()
		t.Error("a closed proxy answers")
	}
}

func TestConceal(t *testing.T) {
	const secret = "a b/ü&"
	for _, s := range []string{"x?p=" + secret, "x?p=" + url.QueryEscape(secret), "x/" + url.PathEscape(secret), "x?p=a%20b%2F%C3%BC%26"} {
		if got := conceal(s, secret); got == s || strings.Contains(got, "b") {
			t.Errorf("%s became %s", s, got)
		}
	}
	if conceal("abc", "") != "abc" {
		t.Error("an empty secret is everywhere")
	}
}

func TestKeyOf(t *testing.T) {
	for r := rune(' '); r < 127; r++ {
		if k, ok := keyOf(r); !ok || k.text != string(r) || k.virtual == 0 || k.code == "" {
			t.Errorf("%q has no key: %+v", r, k)
		}
	}
	if _, ok := keyOf('ü'); ok {
		t.Error("ü is no key of a US keyboard")
	}
}
