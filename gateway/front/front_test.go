package front_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/principal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers with who called and how much it sent.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		front.WriteError(w, front.BodyError(err))
		return
	}
	fmt.Fprintf(w, "%s %d", front.From(r.Context()).Principal, n)
})

func start(t *testing.T) *fronttest.Front {
	t.Helper()
	f := fronttest.Prepare(t)
	f.Server.Handle("/echo", front.Bearer, echo)
	f.Server.Handle("/open", front.Open, echo)
	return f.Start()
}

func do(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp, string(body)
}

func get(t *testing.T, f *fronttest.Front, path string, set func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, f.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(req)
	}
	return do(t, req)
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func TestTokenNeededOnLoopbackToo(t *testing.T) {
	f := start(t)
	rec, token := f.Mint(principal.Spec{Principal: "alice", Role: principal.RoleAgent})
	_, brief := f.Mint(principal.Spec{Principal: "bob", Role: principal.RoleAgent, TTL: time.Hour})
	if resp, body := get(t, f, "/echo", bearer(token)); resp.StatusCode != 200 || body != "alice 0" {
		t.Fatalf("a good token: %d %s", resp.StatusCode, body)
	}
	if resp, _ := get(t, f, "/echo", bearer(brief)); resp.StatusCode != 200 {
		t.Fatal("a token before its expiry is refused")
	}
	if _, err := f.Tokens.Revoke(t.Context(), principal.Site, rec.ID); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(2 * time.Hour)
	for name, c := range map[string]struct {
		set  func(*http.Request)
		want string
	}{
		"none":        {nil, "no token came"},
		"wrong":       {bearer("hrt_" + strings.Repeat("A", 43)), "not valid"},
		"no token":    {bearer(""), "not valid"},
		"prefix only": {bearer("hrt_"), "not valid"},
		"huge":        {bearer("hrt_" + strings.Repeat("A", 9000)), "not valid"},
		"revoked":     {bearer(token), "revoked"},
		"expired":     {bearer(brief), "expired"},
		"basic":       {func(r *http.Request) { r.SetBasicAuth("alice", token) }, "must be one"},
		"two": {func(r *http.Request) {
			r.Header["Authorization"] = []string{"Bearer " + token, "Bearer " + token}
		}, "must be one"},
		"query": {func(r *http.Request) { r.URL.RawQuery = "token=" + token }, "no token came"},
	} {
		f.Clock.Advance(time.Hour) // a full allowance of failures for each
		resp, body := get(t, f, "/echo", c.set)
		if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(body, c.want) || !strings.Contains(body, `"unauthenticated"`) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
		if !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: no challenge", name)
		}
	}
	if resp, _ := get(t, f, "/open", nil); resp.StatusCode != 200 {
		t.Errorf("the open address gives %d", resp.StatusCode)
	}
	if resp, body := get(t, f, "/nowhere", nil); resp.StatusCode != 404 || !strings.Contains(body, `"not_found"`) {
		t.Errorf("an unknown address gives %d %s", resp.StatusCode, body)
	}
}

// Requests that a web page can make a browser send must not get in, token or not.
func TestForeignPagesAreRefused(t *testing.T) {
	f := start(t)
	token := f.Token("alice", principal.RoleAgent)
	own := strings.TrimPrefix(f.URL, "http://")
	_, port, _ := net.SplitHostPort(own)
	for name, c := range map[string]struct {
		host, origin, site string
		ok                 bool
	}{
		"plain":               {"", "", "", true},
		"localhost":           {"localhost:" + port, "", "", true},
		"other loopback":      {"127.9.9.9", "", "", true},
		"IPv6 loopback":       {"[::1]:80", "", "", true},
		"root dot":            {"LOCALHOST.:" + port, "", "", true},
		"own origin":          {"", f.URL, "", true},
		"own origin, page":    {"", f.URL, "same-origin", true},
		"typed address":       {"", "", "none", true},
		"rebound name":        {"evil.example", "", "", false},
		"rebound name, port":  {"evil.example:" + port, "http://evil.example:" + port, "", false},
		"looks local":         {"localhost.evil.example", "", "", false},
		"IP on loopback":      {"10.0.0.1:" + port, "", "", false},
		"foreign origin":      {"", "https://evil.example", "", false},
		"other port":          {"", "http://127.0.0.1:1", "", false},
		"null origin":         {"", "null", "", false},
		"file origin":         {"", "file://", "", false},
		"origin with path":    {"", f.URL + "/x", "", false},
		"origin with user":    {"", "http://a@" + own, "", false},
		"cross-site, no orig": {"", "", "cross-site", false},
		"same-site, no orig":  {"", "", "same-site", false},
	} {
		for _, path := range []string{"/echo", "/open"} {
			resp, body := get(t, f, path, func(r *http.Request) {
				bearer(token)(r)
				if c.host != "" {
					r.Host = c.host
				}
				if c.origin != "" {
					r.Header.Set("Origin", c.origin)
				}
				if c.site != "" {
					r.Header.Set("Sec-Fetch-Site", c.site)
				}
			})
			if ok := resp.StatusCode == 200; ok != c.ok {
				t.Errorf("%s on %s: %d %s", name, path, resp.StatusCode, body)
			}
			if !c.ok && (resp.StatusCode != 403 || !strings.Contains(body, `"origin_refused"`)) {
				t.Errorf("%s: %d %s", name, resp.StatusCode, body)
			}
		}
	}
}

func TestConfiguredNamesAndOrigins(t *testing.T) {
	s, err := front.New(front.Options{Tokens: nobody{}, Hosts: []string{"Gateway.Example"}, Origins: []string{"https://console.example/"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Handle("/open", front.Open, echo)
	local := func(addr string) net.Addr { a, _ := net.ResolveTCPAddr("tcp", addr); return a }
	for name, c := range map[string]struct {
		host, origin, at string
		ok               bool
	}{
		"named":              {"gateway.example:7480", "", "127.0.0.1:7480", true},
		"console":            {"gateway.example", "https://console.example", "127.0.0.1:7480", true},
		"console, plain":     {"gateway.example", "http://console.example", "127.0.0.1:7480", false},
		"address, exposed":   {"192.0.2.7:7480", "", "192.0.2.7:7480", true},
		"mapped loopback":    {"192.0.2.7:7480", "", "[::ffff:127.0.0.1]:7480", false},
		"rebinding, exposed": {"evil.example", "", "192.0.2.7:7480", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/open", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local(c.at)))
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if ok := w.Code == 200; ok != c.ok {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}

// The gate stands before reading: a body that says it is too large is refused
// without a byte of it, one that does not say is cut at the bound.
func TestBodyGate(t *testing.T) {
	f := start(t)
	token := f.Token("alice", principal.RoleAgent)
	conn, err := net.Dial("tcp", f.Server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", token, front.MaxBody+1)
	answer, _ := io.ReadAll(conn) // nothing of the body was sent, and the answer comes
	if !bytes.Contains(answer, []byte(" 413 ")) || !bytes.Contains(answer, []byte(`"body_too_large"`)) {
		t.Errorf("%s", answer)
	}
	for size, ok := range map[int]bool{front.MaxBody: true, front.MaxBody + 1: false} {
		req, _ := http.NewRequest(http.MethodPost, f.URL+"/echo", io.MultiReader(strings.NewReader(strings.Repeat("x", size))))
		bearer(token)(req)
		resp, body := do(t, req) // chunked: no length is told
		if (resp.StatusCode == 200) != ok || (!ok && resp.StatusCode != 413) {
			t.Errorf("%d bytes chunked: %d %s", size, resp.StatusCode, body)
		}
	}
}

// A body that trickles holds its connection for as long as a body may take and no
// longer, whoever sends it; one that is only slow is taken whole.
func TestTricklingBodiesEnd(t *testing.T) {
	begin := func(most time.Duration) (*fronttest.Front, string) {
		f := fronttest.Prepare(t)
		f.Server.Handle("/echo", front.Bearer, echo)
		f.Server.Handle("/open", front.Open, echo)
		front.SetBodyTime(f.Server, most)
		f.Start()
		return f, f.Token("alice", principal.RoleAgent)
	}
	f, token := begin(time.Second)
	send := func(path, token, head string, pause time.Duration, most int) (sent int, answer string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n", path, conn.RemoteAddr(), token, head)
		ended := make(chan string, 1)
		go func() {
			all, _ := io.ReadAll(conn) // a reset, too, ends it
			ended <- string(all)
		}()
		late := time.After(45 * time.Second)
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case answer := <-ended:
				return sent, answer
			case <-late:
				t.Fatalf("%s: the connection is still there after %d bytes", path, sent)
			case <-tick.C:
				if sent++; sent <= most {
					_, _ = conn.Write([]byte("x"))
				}
			}
		}
	}
	for _, c := range []struct{ path, token, answer string }{{"/echo", token, "400"}, {"/open", token, "400"}, {"/echo", "of a stranger", "401"}, {"/nothing", token, "404"}} {
		if _, answer := send(c.path, c.token, "Content-Length: 100000\r\n", 10*time.Millisecond, 100000); !strings.HasPrefix(answer, "HTTP/1.1 "+c.answer) && answer != "" {
			t.Errorf("%s: %.200s", c.path, answer)
		}
	}
	f, token = begin(time.Minute) // in which a busy machine, too, sends five bytes
	if _, answer := send("/echo", token, "Content-Length: 5\r\nConnection: close\r\n", 10*time.Millisecond, 5); !strings.HasSuffix(answer, "alice 5") {
		t.Errorf("a slow body: %.300s", answer)
	}
}

func TestFailedAuthenticationIsLimitedPerAddress(t *testing.T) {
	f := fronttest.Prepare(t)
	f.Server.Handle("/echo", front.Bearer, echo)
	good := f.Token("alice", principal.RoleAgent)
	send := func(remote, token string) int {
		r := httptest.NewRequest(http.MethodGet, "/echo", nil)
		r.Host, r.RemoteAddr = "localhost", remote
		if token != "" {
			bearer(token)(r)
		}
		w := httptest.NewRecorder()
		f.Server.ServeHTTP(w, r)
		return w.Code
	}
	// It costs the same, wherever it fails and however the address is written.
	for i := range 10 {
		remote := []string{"192.0.2.1:1000", "[::ffff:192.0.2.1]:2000"}[i%2]
		if got := send(remote, []string{"", "hrt_wrong"}[i/5]); got != 401 {
			t.Fatalf("failure %d gives %d", i, got)
		}
	}
	for _, remote := range []string{"192.0.2.1:3000", "[::ffff:192.0.2.1]:4"} {
		if got := send(remote, "hrt_wrong"); got != 429 {
			t.Errorf("one failure too many gives %d", got)
		}
	}
	if got := send("192.0.2.1:5000", good); got != 200 {
		t.Errorf("a stranger on the same address locks a valid token out: %d", got)
	}
	if got := send("192.0.2.2:1", ""); got != 401 {
		t.Errorf("another address pays for it: %d", got)
	}
	f.Clock.Advance(6 * time.Second)
	if a, b := send("192.0.2.1:1", ""), send("192.0.2.1:1", ""); a != 401 || b != 429 {
		t.Errorf("after six seconds: %d, %d; want one more failure", a, b)
	}
	// One IPv6 client is one /64.
	for i := range 10 {
		send(fmt.Sprintf("[2001:db8::%x]:1", i+1), "")
	}
	if got := send("[2001:db8::ffff]:1", ""); got != 429 {
		t.Errorf("another address of the same /64 gives %d", got)
	}
	for i := range 4_200 {
		send(fmt.Sprintf("10.%d.%d.1:1", i/256, i%256), "")
	}
	if have, most := front.Watched(f.Server); have > most {
		t.Errorf("%d addresses are remembered, %d at most", have, most)
	}
}

func TestPlainBeyondLoopbackIsRefused(t *testing.T) {
	for _, c := range []struct {
		o  front.Options
		ok bool
	}{
		{front.Options{Addr: "127.0.0.1:0"}, true},
		{front.Options{Addr: "0.0.0.0:0"}, false},
		{front.Options{Addr: ":0"}, false},
		{front.Options{Addr: "0.0.0.0:0", Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}}, true},
		{front.Options{Addr: "0.0.0.0:0", Certificate: generated(t)}, true},
	} {
		c.o.Tokens = nobody{}
		s, err := front.New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Listen(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.o.Addr, err)
		} else if e := capabilities.AsError(err); err != nil && (e.Code != capabilities.CodeInvalidRequest || e.PublicAction().Key != capabilities.ActionServeHTTPS) {
			t.Errorf("%s: %+v", c.o.Addr, e)
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Secrets must not reach the log, whatever a client does with them.
func TestTokensAreNotLogged(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	s, err := front.New(front.Options{Tokens: nobody{}, Log: slog.New(slog.NewTextHandler(locked{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	s.Handle("/echo", front.Bearer, echo)
	for _, set := range []func(*http.Request){bearer("hrt_sesame"), func(r *http.Request) { r.URL.RawQuery = "token=hrt_sesame" },
		func(r *http.Request) { r.Header.Set("Authorization", "hrt_sesame") }} {
		r := httptest.NewRequest(http.MethodGet, "/echo", nil)
		r.Host = "localhost"
		set(r)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "sesame") {
			t.Errorf("the answer repeats the token: %s", w.Body)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if log.Len() == 0 || strings.Contains(log.String(), "sesame") {
		t.Errorf("log: %s", log.String())
	}
}

// dated is a response that knows its write deadline.
type dated struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (d *dated) SetWriteDeadline(at time.Time) error { d.deadline = at; return nil }

// A caller without a token cannot hold a connection by reading nothing; an answer to one with a
// token may take as long as it takes, also on a connection that served a stranger.
func TestStrangersReadInTime(t *testing.T) {
	f := fronttest.Prepare(t)
	var at time.Time
	f.Server.Handle("/echo", front.Bearer, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { at = w.(*dated).deadline }))
	f.Server.Handle("/open", front.Open, echo)
	token := f.Token("alice", principal.RoleAgent)
	w := &dated{ResponseRecorder: httptest.NewRecorder()} // one connection
	send := func(host, path, token string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = host
		if token != "" {
			bearer(token)(r)
		}
		f.Server.ServeHTTP(w, r)
	}
	for _, c := range [][3]string{{"evil.example", "/echo", token}, {"localhost", "/echo", "hrt_wrong"}, {"localhost", "/open", ""}, {"localhost", "/nowhere", ""}} {
		w.deadline, at = time.Time{}, time.Now()
		send(c[0], c[1], c[2])
		if w.deadline.IsZero() {
			t.Errorf("%v: no deadline", c)
		}
		if send("localhost", "/echo", token); !at.IsZero() {
			t.Errorf("a caller after %v has the deadline %s", c, at)
		}
	}
}

// A page that sends its requests again and again does not fill the log.
func TestRefusalsAreLoggedInBounds(t *testing.T) {
	var log bytes.Buffer
	s, err := front.New(front.Options{Tokens: nobody{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = strings.Repeat("x", 10_000)
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	if n := bytes.Count(log.Bytes(), []byte("front.refused")); n < 1 || n > 100 || log.Len() > 100_000 {
		t.Errorf("%d lines, %d bytes", n, log.Len())
	}
}

func TestErrorsAreComplete(t *testing.T) {
	for _, code := range capabilities.Codes() {
		w := httptest.NewRecorder()
		front.WriteError(w, capabilities.Errorf(code, "x").WithDetails(map[string]any{"a": 1}))
		if w.Code != code.Info().HTTP || w.Code < 400 || !strings.Contains(w.Body.String(), `"code":"`+string(code)+`"`) || !strings.Contains(w.Body.String(), `"hint"`) {
			t.Errorf("%s: %d %s", code, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	front.WriteError(w, fmt.Errorf("disk at /secret/place: %w", io.ErrUnexpectedEOF))
	if w.Code != 500 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("a foreign error: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	front.WriteError(w, capabilities.Errorf(capabilities.CodeConflict, "x").WithDetails(make(chan int)))
	if w.Code != 409 || !strings.Contains(w.Body.String(), `"conflict"`) {
		t.Errorf("details that are no JSON: %d %s", w.Code, w.Body)
	}
}

type nobody struct{}

func (nobody) Session(string) (principal.Identity, error) {
	return principal.Identity{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "")
}

func (nobody) Authenticate(string) (principal.Identity, error) {
	return principal.Identity{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "the token is not valid")
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
