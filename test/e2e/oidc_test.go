package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/oidc"
	"github.com/handrail-dev/handrail/gateway/oidc/oidctest"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// tab is a browser that follows redirects and no page.
type tab struct {
	*http.Client
	t *testing.T
}

func newTab(t *testing.T) *tab {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &tab{&http.Client{Jar: jar}, t}
}

// does makes a request, and returns the page, where it leads on to, and where the browser is then.
func (b *tab) does(method, to string, headers ...string) (status int, page, onward string, at *url.URL) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, to, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	_, onward, _ = strings.Cut(resp.Header.Get("Refresh"), "url=")
	return resp.StatusCode, string(body), onward, resp.Request.URL
}

// A person signs in at a real provider, through the pages, goes on to what a client asked, and
// nobody else's page or answer signs anybody in.
func TestPeopleSignInAtTheirProvider(t *testing.T) {
	party := oidctest.Start(t)
	party.Person("ann", "ops")
	party.Person("mallory", "ops")
	party.Person("eve")
	s := site.Start(t, site.Options{Door: func(o *gateway.Options) {
		o.OIDC = &oidc.Config{Issuer: party.URL, Client: "gateway", Secret: "idp", Roles: map[string]principal.Role{"ops": principal.RoleOperator}}
	}})
	here := s.URL()
	party.Client("gateway", here+"/console/login/back")
	if err := s.Secrets.Set(t.Context(), "ann", "idp", capabilities.NewSecret([]byte(oidctest.Secret))); err != nil {
		t.Fatal(err)
	}
	const begins = "/console/login/elsewhere"
	cross := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	// away signs somebody in at the provider, and returns where the provider sends that browser.
	away := func(b *tab, name string) string {
		t.Helper()
		status, _, onward, _ := b.does(http.MethodPost, here+begins, "Origin", here)
		if status != http.StatusOK || !strings.HasPrefix(onward, party.URL+"/") {
			t.Fatalf("%d, led to %q", status, onward)
		}
		return party.Enters(t, onward, name).String()
	}
	sessions := func() (all []principal.Token) {
		for _, tok := range s.Tokens.List() {
			if tok.Opened == "oidc" {
				all = append(all, tok)
			}
		}
		return all
	}

	ann := newTab(t)
	_, page, _, at := ann.does(http.MethodGet, here+"/console/authorize?client_id=asked")
	if at.Path != "/console/login" || !strings.Contains(page, "Sign in at "+strings.TrimPrefix(party.URL, "http://")) {
		t.Fatalf("at %s: %s", at, page)
	}
	sent := away(ann, "ann")
	status, _, onward, _ := ann.does(http.MethodGet, sent, cross...)
	if status != http.StatusOK || !strings.HasPrefix(onward, "/console/login/finish?") {
		t.Fatalf("%d, led to %q", status, onward)
	}
	if _, _, _, at = ann.does(http.MethodGet, here+onward); at.Path != "/console/authorize" || at.Query().Get("client_id") != "asked" {
		t.Errorf("went on to %s", at)
	}
	if _, page, _, at = ann.does(http.MethodGet, here+"/console/account"); at.Path != "/console/account" || !strings.Contains(page, "ann") {
		t.Errorf("at %s", at)
	}
	if all := sessions(); len(all) != 1 || all[0].Principal != "ann" || all[0].Role != principal.RoleOperator {
		t.Fatalf("%+v", all)
	}

	// The same answer again signs nobody in, here or elsewhere.
	for name, b := range map[string]*tab{"the same browser": ann, "another browser": newTab(t)} {
		if status, _, _, at := b.does(http.MethodGet, here+onward); status != http.StatusUnauthorized || at.Path != "/console/login/finish" {
			t.Errorf("%s: %d at %s", name, status, at)
		}
	}
	// An answer of mallory's, in the browser of a victim who began a sign-in of their own: they would
	// work as mallory from then on.
	theirs := away(newTab(t), "mallory")
	victim := newTab(t)
	away(victim, "ann")
	_, _, onward, _ = victim.does(http.MethodGet, theirs, cross...)
	if status, _, _, _ := victim.does(http.MethodGet, here+onward); status != http.StatusUnauthorized {
		t.Errorf("signed in as somebody else: %d", status)
	}
	// Another page begins nothing and loads nothing.
	for name, headers := range map[string][]string{
		"another page": {"Origin", "https://evil.example"}, "no page": nil, "another site": {"Origin", here, "Sec-Fetch-Site", "cross-site"},
	} {
		b := newTab(t)
		if status, _, onward, _ := b.does(http.MethodPost, here+begins, headers...); status < 400 || onward != "" {
			t.Errorf("%s: %d, led to %q", name, status, onward)
		}
	}
	for _, dest := range []string{"iframe", "image", "empty"} {
		if status, _, _, _ := ann.does(http.MethodGet, sent, append(cross[:5:5], dest)...); status < 400 {
			t.Errorf("loaded as %s: %d", dest, status)
		}
	}
	// A person in no group is told so, and is nobody here.
	eve := newTab(t)
	_, _, onward, _ = eve.does(http.MethodGet, away(eve, "eve"), cross...)
	if status, page, _, _ := eve.does(http.MethodGet, here+onward); status != http.StatusForbidden || !strings.Contains(page, "of your groups may come in") {
		t.Errorf("%d: %s", status, page)
	}
	if all := sessions(); len(all) != 1 {
		t.Errorf("%d sessions", len(all))
	}

	// A gateway without a provider has no such door.
	plain := site.Start(t, site.Options{})
	if status, _, _, _ := newTab(t).does(http.MethodPost, plain.URL()+begins, "Origin", plain.URL()); status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		t.Errorf("%d", status)
	}
}
