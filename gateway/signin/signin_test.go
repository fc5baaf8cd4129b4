package signin

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/signin/signintest"
	"github.com/handrail-dev/handrail/gateway/store"
)

const back = "http://127.0.0.1:7480/console/sign-ins/"

// house is a Book over a real store and real stored secrets.
type house struct {
	*Book
	t       *testing.T
	store   *store.Store
	secrets *secret.Vault
	path    string
	logs    bytes.Buffer
	packets []string
	broken  string // the kind of packet with which a transaction fails; "": none does
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, path: filepath.Join(t.TempDir(), "store.db")}
	var err error
	h.store, err = store.Open(t.Context(), store.Options{Path: h.path, Migrations: slices.Concat(secret.Migrations(), Migrations())})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.store.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; _ = h.store.Close() })
	key := make([]byte, 32)
	rand.Read(key)
	record := func(_ *store.Tx, kind string, by capabilities.PrincipalID, body any) error {
		if kind == h.broken {
			return fmt.Errorf("no packet %s", kind)
		}
		h.packets = append(h.packets, fmt.Sprint(kind, by, body))
		return nil
	}
	log := slog.New(slog.NewTextHandler(&h.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.secrets, err = secret.New(secret.Options{Store: h.store, Key: key, Record: record, Log: log})
	must(t, err)
	h.Book, err = New(Options{Store: h.store, Secrets: h.secrets, Key: key, Record: record, Log: log})
	must(t, err)
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// token is the access token as a node would be sent it.
func (h *house) token(name string) string {
	h.t.Helper()
	ref, err := h.secrets.Allow(h.t.Context(), "ann", secret.Spec{Name: secretName(name), Principal: "ann", Tools: []capabilities.ToolID{"tool.secret.copy-to-node-clipboard"}})
	must(h.t, err)
	value, err := h.secrets.Resolve(h.t.Context(), ref)
	must(h.t, err)
	must(h.t, h.secrets.Remove(h.t.Context(), "ann", ref.ID))
	return string(value.Reveal())
}

func wish(p *signintest.Party, name, session string) Wish {
	return Wish{Name: name, Server: p.Server.URL + "/mcp", Net: []string{strings.TrimPrefix(p.Auth.URL, "http://")}, Back: back, Session: session, By: "ann"}
}

// says is a person who says yes in their browser; it returns what the authorization server sent it
// back with.
func says(t *testing.T, address string) *url.URL {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	var sent *url.URL
	c := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), back) {
			sent = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := c.Get(address)
	must(t, err)
	page, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	at := resp.Request.URL
	if at.Query().Get("authRequestID") == "" {
		t.Fatalf("no page to sign in: %d %s", resp.StatusCode, page)
	}
	resp, err = c.PostForm(at.String(), url.Values{"id": {at.Query().Get("authRequestID")}, "username": {"test-user2"}, "password": {"verysecure"}})
	must(t, err)
	page, _ = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if sent == nil {
		t.Fatalf("not sent back: %d %s", resp.StatusCode, page)
	}
	return sent
}

func answerOf(u *url.URL, session string) Answer {
	q := u.Query()
	return Answer{Place: strings.TrimPrefix(u.Path, "/console/sign-ins/"), State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error"), Session: session}
}

// A person signs in at a real authorization server; the MCP server takes the token, which was
// asked for it alone; it is refreshed with rotation, and revoked when it is removed. No token is in
// a log, a packet, a list or the store's bytes.
func TestSignIn(t *testing.T) {
	h, p := newHouse(t), signintest.Start(t)
	started, err := h.Begin(t.Context(), wish(p, "wiki", "s1"))
	must(t, err)
	u, err := url.Parse(started.Address)
	must(t, err)
	if q := u.Query(); q.Get("code_challenge_method") != "S256" || q.Get("resource") != p.Server.URL+"/mcp" || q.Get("redirect_uri") != started.Back || len(q.Get("state")) != 43 {
		t.Errorf("%s", started.Address)
	}
	sent := says(t, started.Address)
	var renewed []string
	h.opts.Renewed = func(_ context.Context, secret string) { renewed = append(renewed, secret) }
	s, err := h.Finish(t.Context(), answerOf(sent, "s1"))
	must(t, err)
	if !slices.Equal(renewed, []string{"sign-in/wiki"}) {
		t.Errorf("hosts get %v", renewed)
	}
	if s.Name != "wiki" || s.Issuer != p.Auth.URL || s.Until.IsZero() {
		t.Errorf("%+v", s)
	}
	first := h.token("wiki")
	if !p.Takes(t, first) || p.Takes(t, "something else") {
		t.Error("the MCP server judges tokens otherwise")
	}
	must(t, h.Refresh(t.Context(), "wiki"))
	second := h.token("wiki")
	if second == first || !p.Takes(t, second) {
		t.Error("the token was not refreshed")
	}
	must(t, h.Refresh(t.Context(), "wiki"))
	third := h.token("wiki")
	if len(p.Refreshed) != 2 || p.Refreshed[0] == p.Refreshed[1] {
		t.Errorf("refresh tokens do not rotate: %d came", len(p.Refreshed))
	}
	must(t, h.Remove(t.Context(), "ann", "wiki"))
	if len(p.Revoked) != 2 || !slices.Contains(p.Revoked, third) {
		t.Errorf("%d tokens were revoked", len(p.Revoked))
	}
	if list, err := h.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
	if all, err := h.secrets.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v %v", all, err)
	}
	seen := h.logs.String() + strings.Join(h.packets, "\n")
	for _, canary := range append([]string{first, second, third, sent.Query().Get("code"), sent.Query().Get("state")}, p.Refreshed...) {
		if strings.Contains(seen, canary) {
			t.Errorf("a log or a packet has %q", canary)
		}
	}
}

// signIn has a person sign in.
func (h *house) signIn(in Wish) (SignIn, error) {
	h.t.Helper()
	started, err := h.Begin(h.t.Context(), in)
	must(h.t, err)
	return h.Finish(h.t.Context(), answerOf(says(h.t, started.Address), in.Session))
}

// A name stays one server's: who was approved with its token never gets another server's. Signing
// in there again revokes the tokens that were.
func TestANameIsOneServers(t *testing.T) {
	h, p, other := newHouse(t), signintest.Start(t), signintest.Start(t)
	// Two that began before either was finished.
	late, err := h.Begin(t.Context(), wish(other, "wiki", "s2"))
	must(t, err)
	_, err = h.signIn(wish(p, "wiki", "s1"))
	must(t, err)
	first := h.token("wiki")
	if _, err := h.Finish(t.Context(), answerOf(says(t, late.Address), "s2")); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("finished over another server's: %v", err)
	}
	if _, err := h.Begin(t.Context(), wish(other, "wiki", "s1")); capabilities.CodeOf(err) != capabilities.CodeConflict || strings.Contains(err.Error(), first) {
		t.Errorf("begun over another server's: %v", err)
	}
	if h.token("wiki") != first || len(p.Revoked) != 0 {
		t.Error("a refused sign-in changed the one that is there")
	}
	_, hid, err := h.get(t.Context(), "wiki")
	must(t, err)
	_, err = h.signIn(wish(p, "wiki", "s1"))
	must(t, err)
	if again := h.token("wiki"); again == first || !p.Takes(t, again) || !slices.Contains(p.Revoked, hid.Refresh) || !slices.Contains(p.Revoked, first) {
		t.Errorf("%d tokens were revoked", len(p.Revoked))
	}
}

// An answer counts once, for the session that began it, at the address of its authorization
// server, and with its state.
func TestAnswersThatAreNone(t *testing.T) {
	h, p := newHouse(t), signintest.Start(t)
	begin := func(session string) *url.URL {
		t.Helper()
		started, err := h.Begin(t.Context(), wish(p, "wiki", session))
		must(t, err)
		return says(t, started.Address)
	}
	good := answerOf(begin("s1"), "s1")
	other := answerOf(begin("s2"), "s2")
	for name, change := range map[string]func(*Answer){
		"a state that was made up":            func(a *Answer) { a.State = strings.Repeat("A", 43) },
		"no state":                            func(a *Answer) { a.State = "" },
		"another session's answer":            func(a *Answer) { a.Session = "s2" },
		"the state of another session":        func(a *Answer) { a.State = other.State },
		"another authorization server's path": func(a *Answer) { a.Place = "0123456789abcdef" },
	} {
		a := good
		change(&a)
		if _, err := h.Finish(t.Context(), a); capabilities.CodeOf(err) != capabilities.CodeForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A code that another session was given is bound to that session's verifier.
	injected := good
	injected.Code = other.Code
	if _, err := h.Finish(t.Context(), injected); err == nil {
		t.Error("a code of another session was taken")
	}
	if list, _ := h.List(t.Context()); len(list) != 0 {
		t.Fatalf("%+v", list)
	}
	good = answerOf(begin("s1"), "s1")
	_, err := h.Finish(t.Context(), good)
	must(t, err)
	if _, err := h.Finish(t.Context(), good); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("twice: %v", err)
	}
}

// An authorization server that names itself in its answers is believed by nothing else (RFC 9207),
// and each one answers at an address of its own (mix-up).
func TestMixUp(t *testing.T) {
	h, p, evil := newHouse(t), signintest.Start(t), signintest.Start(t)
	p.Change = func(meta map[string]any) { meta["authorization_response_iss_parameter_supported"] = true }
	started, err := h.Begin(t.Context(), wish(p, "wiki", "s1"))
	must(t, err)
	for _, issuer := range []string{"", evil.Auth.URL} {
		started, err := h.Begin(t.Context(), wish(p, "wiki", "s1"))
		must(t, err)
		a := answerOf(says(t, started.Address), "s1")
		a.Issuer = issuer
		if _, err := h.Finish(t.Context(), a); capabilities.CodeOf(err) != capabilities.CodeForbidden {
			t.Errorf("issuer %q: %v", issuer, err)
		}
	}
	// The evil one sends the browser on to the honest one, with the evil state: the code would go
	// to the evil token endpoint.
	bad, err := h.Begin(t.Context(), wish(evil, "evil", "s1"))
	must(t, err)
	if bad.Back == started.Back {
		t.Error("two authorization servers answer at one address")
	}
	honest, err := url.Parse(started.Address)
	must(t, err)
	trap, err := url.Parse(bad.Address)
	must(t, err)
	q := honest.Query()
	q.Set("state", trap.Query().Get("state"))
	honest.RawQuery = q.Encode()
	if _, err := h.Finish(t.Context(), answerOf(says(t, honest.String()), "s1")); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("%v", err)
	}
	evil.Mu.Lock()
	defer evil.Mu.Unlock()
	if len(evil.Asked) != 0 {
		t.Error("the evil token endpoint was asked")
	}
}

// The gateway asks public addresses and the named hosts alone, whoever names others.
func TestWhereTheGatewayAsks(t *testing.T) {
	h := newHouse(t)
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a host that nobody named was asked") }))
	t.Cleanup(inner.Close)
	near := func(p *signintest.Party, issuer string) {
		p.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			signintest.Answer(w, http.StatusOK, map[string]any{"resource": p.Server.URL + "/mcp", "authorization_servers": []string{issuer}})
		})
	}
	for name, change := range map[string]func(*signintest.Party){
		"metadata at a metadata service": func(p *signintest.Party) {
			p.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://169.254.169.254/latest"`)
				w.WriteHeader(http.StatusUnauthorized)
			})
		},
		"an authorization server there":     func(p *signintest.Party) { near(p, "https://169.254.169.254") },
		"an authorization server next door": func(p *signintest.Party) { near(p, "https://127.0.0.1:1") },
		"one in clear":                      func(p *signintest.Party) { near(p, inner.URL) },
		"a file":                            func(p *signintest.Party) { near(p, "file:///etc/passwd") },
		"a token endpoint there": func(p *signintest.Party) {
			p.Change = func(m map[string]any) { m["token_endpoint"] = "http://169.254.169.254/token" }
		},
		"a token endpoint next door": func(p *signintest.Party) { p.Change = func(m map[string]any) { m["token_endpoint"] = inner.URL } },
		"a registration next door": func(p *signintest.Party) {
			p.Change = func(m map[string]any) { m["registration_endpoint"] = inner.URL }
		},
		"an address that runs": func(p *signintest.Party) {
			p.Change = func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" }
		},
		"another issuer": func(p *signintest.Party) { p.Change = func(m map[string]any) { m["issuer"] = "https://example.com" } },
		"no PKCE": func(p *signintest.Party) {
			p.Change = func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} }
		},
	} {
		p := signintest.Start(t)
		change(p)
		if s, err := h.Begin(t.Context(), wish(p, "wiki", "s1")); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for _, bad := range []string{"", "ftp://example.com", "https://user@example.com/mcp", "https://example.com/#x", "/mcp", "https:example.com"} {
		if _, err := h.Begin(t.Context(), Wish{Name: "wiki", Server: bad, Session: "s1"}); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// An authorization server that sends people to another site is refused, also where both are named
// (RFC 9700, 4.4); what is asked for, and where, is told before anybody goes there.
func TestAuthorizationEndpointElsewhere(t *testing.T) {
	h, p := newHouse(t), signintest.Start(t)
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	in := wish(p, "wiki", "s1")
	in.Net = append(in.Net, strings.TrimPrefix(elsewhere.URL, "http://"))
	p.Change = func(m map[string]any) { m["authorization_endpoint"] = elsewhere.URL + "/authorize" }
	if s, err := h.Begin(t.Context(), in); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("%+v, %v", s, err)
	}
	p.Change = nil
	s, err := h.Begin(t.Context(), in)
	must(t, err)
	if s.Host != strings.TrimPrefix(p.Auth.URL, "http://") || !slices.Contains(s.Scopes, "openid") {
		t.Errorf("%+v", s)
	}
}

// A token endpoint that redirects gets no code and no secret to another place, and its words reach
// nobody.
func TestTokenEndpointsThatRedirect(t *testing.T) {
	h, p := newHouse(t), signintest.Start(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	trap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(trap.Close)
	p.Change = func(m map[string]any) { m["token_endpoint"] = trap.URL }
	in := wish(p, "wiki", "s1")
	in.Net = append(in.Net, strings.TrimPrefix(trap.URL, "http://"), strings.TrimPrefix(elsewhere.URL, "http://"))
	started, err := h.Begin(t.Context(), in)
	must(t, err)
	a := answerOf(says(t, started.Address), "s1")
	_, err = h.Finish(t.Context(), a)
	if err == nil || strings.Contains(err.Error(), a.Code) {
		t.Errorf("%v", err)
	}
}

// An access token that is not refreshed is revoked, too.
func TestRevokingWithoutRefresh(t *testing.T) {
	h, p := newHouse(t), signintest.Start(t)
	s, err := h.signIn(wish(p, "wiki", "s1"))
	must(t, err)
	access := h.token("wiki")
	must(t, h.put(t.Context(), "ann", "", &s, &tokens{access: access}))
	must(t, h.Remove(t.Context(), "ann", "wiki"))
	if !slices.Equal(p.Revoked, []string{access}) {
		t.Errorf("%d tokens were revoked", len(p.Revoked))
	}
}

// A server that says of every token that it ends within a second is asked once a minute.
func TestShortLives(t *testing.T) {
	h, p := newHouse(t), signintest.Start(t)
	now := time.Now()
	h.opts.Now = func() time.Time { return now }
	_, err := h.signIn(wish(p, "wiki", "s1"))
	must(t, err)
	later := map[string]time.Time{}
	for range 2 {
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 1}, {time.Second, 0}, {50 * time.Second, 0}, {9 * time.Second, 1}} {
			s, hid, err := h.get(t.Context(), "wiki")
			must(t, err)
			now = now.Add(step.after)
			s.Until = now.Add(time.Second)
			must(t, h.put(t.Context(), "ann", "", &s, &tokens{refresh: hid.Refresh, access: hid.Access}))
			before := len(p.Refreshed)
			next := h.round(t.Context(), later)
			if got := len(p.Refreshed) - before; got != step.want || !next.Equal(later["wiki"]) {
				t.Errorf("after %v: %d refreshes, next in %v", step.after, got, next.Sub(now))
			}
		}
		now = now.Add(pace)
	}
}

// A change that fails half way leaves no half: refreshed, both tokens are the old ones; removed,
// the sign-in is there to be removed again, and no token outlives it.
func TestHalfWay(t *testing.T) {
	h, p := newHouse(t), signintest.Start(t)
	_, err := h.signIn(wish(p, "wiki", "s1"))
	must(t, err)
	access := h.token("wiki")
	before, hid, err := h.get(t.Context(), "wiki")
	must(t, err)
	h.broken = "secret.set"
	if err := h.Refresh(t.Context(), "wiki"); err == nil {
		t.Fatal("nothing failed")
	}
	after, hidAfter, err := h.get(t.Context(), "wiki")
	must(t, err)
	if h.token("wiki") != access || !after.Until.Equal(before.Until) || hidAfter != hid {
		t.Errorf("the record is new and the token is not: %+v", after)
	}
	for _, kind := range []string{"secret.removed", "gateway.sign_in.removed"} {
		h.broken = kind
		if err := h.Remove(t.Context(), "ann", "wiki"); err == nil {
			t.Fatalf("%s: nothing failed", kind)
		}
		if list, err := h.List(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("%s: the sign-in is gone: %v", kind, err)
		}
	}
	if all, err := h.secrets.List(t.Context()); err != nil || len(all) != 0 || len(p.Revoked) == 0 {
		t.Errorf("its token is there: %+v %v", all, err)
	}
	h.broken = ""
	must(t, h.Remove(t.Context(), "ann", "wiki"))
	if list, err := h.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
}

// A sign-in that the authorization server ended says so and leaves no token.
func TestAnEndedSignIn(t *testing.T) {
	h, p := newHouse(t), signintest.Start(t)
	started, err := h.Begin(t.Context(), wish(p, "wiki", "s1"))
	must(t, err)
	_, err = h.Finish(t.Context(), answerOf(says(t, started.Address), "s1"))
	must(t, err)
	s, hid, err := h.get(t.Context(), "wiki")
	must(t, err)
	hid.Refresh = "a-token-that-is-none"
	must(t, h.put(t.Context(), "ann", "", &s, &tokens{refresh: hid.Refresh}))
	must(t, h.Refresh(t.Context(), "wiki"))
	list, err := h.List(t.Context())
	must(t, err)
	if len(list) != 1 || list[0].Ended == "" {
		t.Errorf("%+v", list)
	}
	if all, err := h.secrets.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v %v", all, err)
	}
}

func FuzzReadAddress(f *testing.F) {
	for _, s := range []string{"https://example.com/mcp", "http://[::1]:8080/", "https://user:pw@example.com", "https://a\\b", "javascript:alert(1)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := readAddress("server", s)
		if err != nil {
			return
		}
		if u.User != nil || u.Fragment != "" || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			t.Errorf("%q", u)
		}
	})
}
