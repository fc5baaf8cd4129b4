package oidc_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/oidc"
	"github.com/handrail-dev/handrail/gateway/oidc/oidctest"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

const back = "https://handrail.example/console/login/back"

// house is a gateway's people, and a provider at which they sign in.
type house struct {
	*oidc.Provider
	t      *testing.T
	party  *oidctest.Party
	tokens *principal.Tokens
	now    time.Time
	logs   bytes.Buffer
	kinds  []string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newHouse(t *testing.T, change ...func(*oidc.Config)) *house {
	t.Helper()
	h := &house{t: t, party: oidctest.Start(t), now: time.Now()}
	h.party.Client("gateway", back)
	h.party.Person("ann", "ops", "people")
	h.party.Person("bob", "people")
	h.party.Person("eve")
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), ReserveBytes: -1, Migrations: principal.Migrations()})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	clock := func() time.Time { return h.now }
	h.tokens, err = principal.New(principal.Options{Store: db, Now: clock, Record: func(_ *store.Tx, kind string, _ capabilities.PrincipalID, _ any) error {
		h.kinds = append(h.kinds, kind)
		return nil
	}})
	must(t, err)
	must(t, h.tokens.Load(t.Context()))
	c := oidc.Config{
		Issuer: h.party.URL, Client: "gateway", Secret: "idp", Roles: map[string]principal.Role{"ops": principal.RoleAdmin, "people": principal.RoleViewer},
	}
	for _, f := range change {
		f(&c)
	}
	h.Provider, err = oidc.New(oidc.Options{Config: c, People: h.tokens, Now: clock, Log: slog.New(slog.NewTextHandler(&h.logs, nil)),
		Secrets: func(_ context.Context, name string) (capabilities.Secret, error) {
			if name != "idp" {
				return capabilities.Secret{}, capabilities.Errorf(capabilities.CodeSecretUnavailable, "no such secret")
			}
			return capabilities.NewSecret([]byte(oidctest.Secret)), nil
		}})
	must(t, err)
	return h
}

// answers is a person who signs in at the provider, and what their browser comes back with.
func (h *house) answers(name string) oidc.Answer {
	h.t.Helper()
	begun, err := h.Begin(h.t.Context(), back)
	must(h.t, err)
	return h.answer(begun, h.party.Enters(h.t, begun.Address, name))
}

func (h *house) answer(begun oidc.Begun, sent *url.URL) oidc.Answer {
	q := sent.Query()
	return oidc.Answer{Keep: begun.Keep, Back: back, State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error")}
}

func (h *house) enters(name string) (principal.Identity, error) {
	h.t.Helper()
	_, secret, err := h.Finish(h.t.Context(), h.answers(name))
	if err != nil {
		return principal.Identity{}, err
	}
	return h.tokens.Session(secret.Reveal())
}

// refused checks that somebody does not come in, and why.
func (h *house) refused(name string, code capabilities.Code, says string) {
	h.t.Helper()
	before := len(h.tokens.List())
	who, err := h.enters(name)
	if capabilities.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
		h.t.Errorf("%s: %+v %v, want %s: %s", name, who, err, code, says)
	}
	if after := len(h.tokens.List()); after != before {
		h.t.Errorf("%s: left %d records behind", name, after-before)
	}
}

// A person signs in at a real provider, as what their groups stand for, and is the same person the
// next time, under whatever name.
func TestAPersonSignsIn(t *testing.T) {
	h := newHouse(t)
	begun, err := h.Begin(t.Context(), back)
	must(t, err)
	u, err := url.Parse(begun.Address)
	must(t, err)
	q := u.Query()
	if q.Get("code_challenge_method") != "S256" || len(q.Get("state")) != 43 || len(q.Get("nonce")) != 43 || q.Get("redirect_uri") != back ||
		q.Get("scope") != "openid profile email" {
		t.Errorf("%s", begun.Address)
	}
	for _, hidden := range []string{q.Get("state"), q.Get("nonce")} {
		if strings.Contains(begun.Keep, hidden) {
			t.Error("the browser can read what it keeps")
		}
	}
	_, secret, err := h.Finish(t.Context(), h.answer(begun, h.party.Enters(t, begun.Address, "ann")))
	must(t, err)
	ann, err := h.tokens.Session(secret.Reveal())
	must(t, err)
	if ann.Principal != "ann" || ann.Role != principal.RoleAdmin || !ann.May(principal.ActTokens) {
		t.Errorf("%+v", ann)
	}
	bob, err := h.enters("bob")
	must(t, err)
	if bob.Principal != "bob" || bob.Role != principal.RoleViewer || bob.May(principal.ActApprove) {
		t.Errorf("%+v", bob)
	}
	h.party.Rename("bob", "robert")
	if again, err := h.enters("robert"); err != nil || again.Principal != "bob" || again.TokenID == bob.TokenID {
		t.Errorf("%+v %v", again, err)
	}
	asked := h.party.Asked()
	for _, form := range asked {
		if form.Get("client_secret") != "" || form.Get("code_verifier") == "" {
			t.Error("the secret goes by the header, and each code with its verifier")
		}
	}
	for _, hidden := range []string{oidctest.Secret, asked[0].Get("code"), asked[0].Get("code_verifier"), secret.Reveal()} {
		if strings.Contains(h.logs.String(), hidden) {
			t.Errorf("%s is in a log", hidden)
		}
	}
}

// Groups say at each sign-in what a person may do; one who is in none any more is out at once.
func TestGroupsSayWhatAPersonMayDo(t *testing.T) {
	h := newHouse(t)
	h.refused("eve", capabilities.CodeForbidden, "none of your groups")
	ann, err := h.enters("ann")
	must(t, err)
	made, token, err := h.tokens.Create(t.Context(), ann, principal.Spec{Principal: "ann", Role: principal.RoleAdmin})
	must(t, err)
	h.party.Person("ann", "people")
	less, err := h.enters("ann")
	must(t, err)
	if less.Role != principal.RoleViewer || h.tokens.Valid(ann.TokenID) || h.tokens.Valid(made.ID) {
		t.Errorf("%+v; what was made with more is good still", less)
	}
	if _, err := h.tokens.Authenticate(token.Reveal()); err == nil {
		t.Error("a token of the larger role is taken")
	}
	h.party.Person("ann")
	if _, err := h.enters("ann"); capabilities.CodeOf(err) != capabilities.CodeForbidden || h.tokens.Valid(less.TokenID) {
		t.Errorf("%v; the session goes on", err)
	}
	if _, err := h.tokens.User("ann"); err == nil {
		t.Error("who is in no group is a user still")
	}
	h.party.Person("ann", "ops")
	if back, err := h.enters("ann"); err != nil || back.Role != principal.RoleAdmin {
		t.Errorf("%+v %v", back, err)
	}
}

// Nobody gets somebody else's name, and a person from outside signs in at their provider alone.
func TestNamesAreNobodyElses(t *testing.T) {
	h := newHouse(t)
	_, _, err := h.tokens.Create(t.Context(), principal.Site, principal.Spec{Principal: "bot", Role: principal.RoleAgent})
	must(t, err)
	_, err = h.tokens.AddUser(t.Context(), principal.Site, "carol", principal.RoleOperator, principal.Password{})
	must(t, err)
	for _, name := range []string{"bot", "carol", "Carol", "site"} {
		h.party.Person(name, "ops")
		h.refused(name, capabilities.CodeConflict, "somebody else's")
	}
	h.party.Person("Zoë Müller", "people")
	if zoe, err := h.enters("Zoë Müller"); err != nil || zoe.Principal != "zo--m-ller" {
		t.Errorf("%+v %v", zoe, err)
	}
	ann, err := h.enters("ann")
	must(t, err)
	if _, err := h.tokens.SetPassword(t.Context(), ann, "ann", principal.TypedPassword("a password that is long enough")); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("a password: %v", err)
	}
	if _, _, err := h.tokens.Welcome(t.Context(), principal.Site, "ann"); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("a link: %v", err)
	}
	key, err := h.tokens.AddPasskey(t.Context(), ann, principal.Passkey{ID: "k1", Name: "phone", Place: "handrail.example", Key: []byte("key")})
	must(t, err)
	if _, _, err := h.tokens.SignInPasskey(t.Context(), key.ID, 1); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("a passkey: %v", err)
	}
	if how, err := h.tokens.Present(ann); err == nil {
		t.Errorf("who signed in at a provider, which may ask nobody, counts as present: %s", how)
	}
	if _, err := h.tokens.ExtendSession(t.Context(), ann); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("longer without the provider's word: %v", err)
	}
	must(t, h.tokens.Load(t.Context())) // as after a restart
	if again, err := h.enters("ann"); err != nil || again.Principal != "ann" {
		t.Errorf("%+v %v", again, err)
	}
}

// An ID token counts that the provider signed, for this gateway, this sign-in and this time.
func TestIDTokensThatDoNotCount(t *testing.T) {
	h := newHouse(t)
	for name, c := range map[string]struct {
		alg   string
		forge func(map[string]any)
		says  string
	}{
		"no signature":            {"none", func(map[string]any) {}, "not signed by the provider"},
		"the client's secret":     {"HS256", func(map[string]any) {}, "not signed by the provider"},
		"somebody else's key":     {"other", func(map[string]any) {}, "not signed by the provider"},
		"another issuer":          {"", func(c map[string]any) { c["iss"] = "https://evil.example" }, "not signed by the provider"},
		"another client":          {"", func(c map[string]any) { c["aud"] = []string{"other"} }, "not for this gateway"},
		"several, and no azp":     {"", func(c map[string]any) { c["aud"] = []string{"gateway", "other"}; delete(c, "azp") }, "another client"},
		"given to another client": {"", func(c map[string]any) { c["aud"] = []string{"gateway", "other"}; c["azp"] = "other" }, "another client"},
		"another sign-in's":       {"", func(c map[string]any) { c["nonce"] = "n" }, "another sign-in's"},
		"no nonce":                {"", func(c map[string]any) { delete(c, "nonce") }, "another sign-in's"},
		"over":                    {"", func(c map[string]any) { c["exp"] = h.now.Add(-time.Minute).Unix() }, "over"},
		"no end":                  {"", func(c map[string]any) { delete(c, "exp") }, "over"},
		"nobody":                  {"", func(c map[string]any) { delete(c, "sub") }, "names nobody"},
		"somebody else's subject": {"", func(c map[string]any) { c["sub"] = "id-bob" }, "somebody else's"},
	} {
		t.Run(name, func(t *testing.T) {
			h.t, h.party.Alg, h.party.Forge = t, c.alg, c.forge
			h.refused("ann", capabilities.CodeUnauthenticated, c.says)
		})
	}
	// The same way with nothing changed lets the person in: the tests above fail for their reason.
	h.t, h.party.Alg, h.party.Forge = t, "", func(map[string]any) {}
	if ann, err := h.enters("ann"); err != nil || ann.Principal != "ann" {
		t.Errorf("%+v %v", ann, err)
	}
}

// An answer counts once, in time, in the browser that asked, from the provider that was asked.
func TestAnswersThatDoNotCount(t *testing.T) {
	h := newHouse(t)
	good, other := h.answers("ann"), h.answers("bob")
	for name, change := range map[string]func(*oidc.Answer){
		"another browser":       func(a *oidc.Answer) { a.Keep = other.Keep },
		"no browser":            func(a *oidc.Answer) { a.Keep = "" },
		"a browser's own words": func(a *oidc.Answer) { a.Keep = a.Keep[:len(a.Keep)-4] + "AAAA" },
		"another state":         func(a *oidc.Answer) { a.State = other.State },
		"no state":              func(a *oidc.Answer) { a.State = "" },
		"another address":       func(a *oidc.Answer) { a.Back = "https://other.example/console/login/back" },
	} {
		a := good
		change(&a)
		if _, _, err := h.Finish(t.Context(), a); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	// None of these spent it.
	if _, _, err := h.Finish(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Finish(t.Context(), good); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("twice: %v", err)
	}
	// Somebody else's code in the victim's answer: the nonce and the verifier are this sign-in's.
	mine, theirs := h.answers("bob"), h.answers("ann")
	mine.Code = theirs.Code
	if _, _, err := h.Finish(t.Context(), mine); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("a code that was put in: %v", err)
	}
	// Mix-up (RFC 9207): another provider's name in the answer.
	mixed := h.answers("ann")
	mixed.Issuer = "https://evil.example"
	if _, _, err := h.Finish(t.Context(), mixed); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("another provider's answer: %v", err)
	}
	no := h.answers("ann")
	no.Error = "access_denied"
	if _, _, err := h.Finish(t.Context(), no); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated || !strings.Contains(err.Error(), "access_denied") {
		t.Errorf("a refusal: %v", err)
	}
	late := h.answers("ann")
	h.now = h.now.Add(oidc.Life)
	if _, _, err := h.Finish(t.Context(), late); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("late: %v", err)
	}
}

// A provider that says that it names itself has to (RFC 9207).
func TestAProviderThatNamesItself(t *testing.T) {
	h := newHouse(t)
	h.party.Meta = func(m map[string]any) { m["authorization_response_iss_parameter_supported"] = true }
	a := h.answers("ann")
	a.Issuer = ""
	if _, _, err := h.Finish(t.Context(), a); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("%v", err)
	}
	a = h.answers("ann")
	a.Issuer = h.party.URL
	if _, _, err := h.Finish(t.Context(), a); err != nil {
		t.Error(err)
	}
}

// The gateway asks the issuer and public addresses, as the admin named it, and follows nobody.
func TestMetadataLeadsNowhereElse(t *testing.T) {
	var asked atomic.Int32 // connections: with TLS none would come to a request
	inside := httptest.NewUnstartedServer(http.NotFoundHandler())
	inside.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			asked.Add(1)
		}
	}
	inside.Start()
	defer inside.Close()
	for name, change := range map[string]func(map[string]any){
		"another issuer":         func(m map[string]any) { m["issuer"] = "https://evil.example" },
		"tokens in the clear":    func(m map[string]any) { m["token_endpoint"] = "http://evil.example/token" },
		"tokens next door":       func(m map[string]any) { m["token_endpoint"] = inside.URL + "/token" },
		"keys next door":         func(m map[string]any) { m["jwks_uri"] = inside.URL + "/keys" },
		"people elsewhere":       func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" },
		"a user in the address":  func(m map[string]any) { m["userinfo_endpoint"] = "https://a:b@evil.example/" },
		"an address of a folder": func(m map[string]any) { m["jwks_uri"] = "file:///etc/passwd" },
	} {
		h := newHouse(t)
		h.party.Meta = change
		if begun, err := h.Begin(t.Context(), back); capabilities.CodeOf(err) != capabilities.CodeExecutionFailed {
			t.Errorf("%s: %+v %v", name, begun, err)
		}
	}
	// By https it may be named, and is met by the rules of the egress: it is not public.
	h := newHouse(t)
	h.party.Meta = func(m map[string]any) {
		m["token_endpoint"] = strings.Replace(inside.URL, "http:", "https:", 1) + "/token"
	}
	h.refused("ann", capabilities.CodeUnauthenticated, "refused the code")
	if n := asked.Load(); n != 0 {
		t.Errorf("next door was asked %d times", n)
	}
}

// By address, one person at a time may be named, where the provider says that it is theirs.
func TestPeopleByAddress(t *testing.T) {
	h := newHouse(t, func(c *oidc.Config) {
		c.GroupsClaim, c.NameClaim = "email", "email"
		c.Roles = map[string]principal.Role{"ann@people.example": principal.RoleOperator}
	})
	if ann, err := h.enters("ann"); err != nil || ann.Principal != "ann@people.example" || ann.Role != principal.RoleOperator {
		t.Errorf("%+v %v", ann, err)
	}
	h.refused("bob", capabilities.CodeForbidden, "none of your groups")
	h.party.Info = func(m map[string]any) { m["email_verified"] = false }
	h.refused("ann", capabilities.CodeForbidden, "does not say that your address is yours")
}

func TestConfigs(t *testing.T) {
	good := oidc.Config{Issuer: "https://id.example", Client: "c", Roles: map[string]principal.Role{"g": principal.RoleViewer}}
	must(t, good.Check())
	for name, change := range map[string]func(*oidc.Config){
		"in the clear": func(c *oidc.Config) { c.Issuer = "http://id.example" },
		"with a query": func(c *oidc.Config) { c.Issuer = "https://id.example/?a=b" },
		"with a user":  func(c *oidc.Config) { c.Issuer = "https://a:b@id.example" },
		"no client":    func(c *oidc.Config) { c.Client = "" },
		"no role":      func(c *oidc.Config) { c.Roles = nil },
		"an agent":     func(c *oidc.Config) { c.Roles = map[string]principal.Role{"g": principal.RoleAgent} },
		"lasting":      func(c *oidc.Config) { c.Scopes = []string{"offline_access"} },
	} {
		c := good
		change(&c)
		if err := c.Check(); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}
