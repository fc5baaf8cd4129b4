package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/oauth"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

// house is an authorization server over a real store, with a person who says yes.
type house struct {
	*oauth.Server
	t      *testing.T
	tokens *principal.Tokens
	db     *store.Store
	url    string
	now    time.Time
	kinds  []string // of the packets
}

const (
	verifier = "a-verifier-that-is-long-enough-for-rfc-7636-abc"
	back     = "https://client.example/callback"
)

func newHouse(t *testing.T, hosts ...string) *house {
	t.Helper()
	h := &house{t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	var err error
	h.db, err = store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "store.db"), ReserveBytes: -1, Migrations: append(principal.Migrations(), oauth.Migrations()...),
	})
	must(t, err)
	t.Cleanup(func() { _ = h.db.Close() })
	clock := func() time.Time { return h.now }
	record := func(_ *store.Tx, kind string, _ capabilities.PrincipalID, _ any) error {
		h.kinds = append(h.kinds, kind)
		return nil
	}
	h.tokens, err = principal.New(principal.Options{Store: h.db, Now: clock, Record: record})
	must(t, err)
	must(t, h.tokens.Load(t.Context()))
	h.Server, err = oauth.New(oauth.Options{
		Store: h.db, Tokens: h.tokens, Key: make([]byte, 32), Authorize: "/oauth/authorize", Record: record, Hosts: hosts, Now: clock,
		Base: func(r *http.Request) string { return "http://" + r.Host },
	})
	must(t, err)
	mux := http.NewServeMux()
	for _, e := range h.Endpoints() {
		mux.Handle(e.Pattern, e.Handler)
	}
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	h.url = web.URL
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// here is a request to the gateway.
func (h *house) here(path, token string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, h.url+path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func (h *house) register(redirects ...string) string {
	h.t.Helper()
	body, _ := json.Marshal(map[string]any{"client_name": "Test", "redirect_uris": redirects})
	resp, err := http.Post(h.url+"/oauth/register", "application/json", strings.NewReader(string(body)))
	must(h.t, err)
	defer resp.Body.Close()
	var made struct {
		ID    string `json:"client_id"`
		Error string `json:"error"`
	}
	must(h.t, json.NewDecoder(resp.Body).Decode(&made))
	if (made.ID == "") != (resp.StatusCode != http.StatusCreated) {
		h.t.Fatalf("%d %+v", resp.StatusCode, made)
	}
	return made.ID
}

func (h *house) query(client, redirect string, more ...string) string {
	sum := sha256.Sum256([]byte(verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {redirect}, "state": {"st&te"}, "resource": {h.url + "/mcp"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return q.Encode()
}

// allow lets a client in and returns its code.
func (h *house) allow(query, as string) string {
	h.t.Helper()
	_, to, err := h.Allow(h.here("/", ""), principal.Site, oauth.Wish{Query: query, Principal: capabilities.PrincipalID(as), Tools: []string{"browser", "node"}})
	must(h.t, err)
	u, err := url.Parse(to)
	must(h.t, err)
	if q := u.Query(); q.Get("iss") != h.url || q.Get("state") != "st&te" || q.Get("code") == "" {
		h.t.Fatalf("answered with %s", to)
	}
	return u.Query().Get("code")
}

type answer struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Scope   string `json:"scope"`
	Life    int    `json:"expires_in"`
	Error   string `json:"error"`
}

func (h *house) post(path string, fields ...string) (a answer) {
	h.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	resp, err := http.PostForm(h.url+path, form)
	must(h.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(h.t, err)
	must(h.t, json.Unmarshal(body, &a))
	if (a.Error == "") != (resp.StatusCode == http.StatusOK) || resp.Header.Get("Cache-Control") != "no-store" {
		h.t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	return a
}

func (h *house) exchange(client, code string, more ...string) answer {
	h.t.Helper()
	return h.post("/oauth/token", append([]string{
		"grant_type", "authorization_code", "code", code, "client_id", client, "code_verifier", verifier, "redirect_uri", back,
	}, more...)...)
}

func (h *house) refresh(client, token string) answer {
	h.t.Helper()
	return h.post("/oauth/token", "grant_type", "refresh_token", "refresh_token", token, "client_id", client)
}

// good reports whether an access token is taken at the gateway's own address.
func (h *house) good(token string) bool {
	_, err := h.Access(h.here("/mcp", token), token)
	return err == nil
}

func TestAClientIsLetIn(t *testing.T) {
	h := newHouse(t)
	id := h.register(back)
	got := h.exchange(id, h.allow(h.query(id, back), "tester"))
	if got.Scope != "browser node" || got.Life != 3600 {
		t.Errorf("%+v", got)
	}
	who, err := h.Access(h.here("/mcp", got.Access), got.Access)
	must(t, err)
	if who.Principal != "tester" || who.Role != principal.RoleAgent || !who.Reaches("tool.browser.click") || who.Reaches("tool.desktop.mouse") {
		t.Errorf("%+v", who)
	}
	if list := h.tokens.List(); len(list) != 1 || list[0].Client != "Test (registered by itself; answers go to client.example)" ||
		list[0].Audience != h.url+"/mcp" {
		t.Errorf("%+v", list)
	}
	// Elsewhere it is good for nothing (RFC 8707), and nowhere as another kind of token.
	r := h.here("/mcp", got.Access)
	r.Host = "other.example"
	if _, err := h.Access(r, got.Access); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("taken at another address: %v", err)
	}
	if _, err := h.tokens.Authenticate(got.Access); err == nil {
		t.Error("an access token is a bearer token")
	}
	if h.good(got.Refresh) || h.refresh(id, got.Access).Error != "invalid_grant" {
		t.Error("one kind of token passes for another")
	}
	h.now = h.now.Add(time.Hour)
	if h.good(got.Access) {
		t.Error("an access token outlives its hour")
	}
	if !slices.Equal(h.kinds, []string{"token.created", "token.refreshed"}) {
		t.Errorf("packets %v", h.kinds)
	}
}

// A refresh token is good once, with a moment for an answer that was lost; one that comes later
// ends the client, whoever sends it.
func TestRefreshTokensAreGoodOnce(t *testing.T) {
	h := newHouse(t)
	id := h.register(back)
	first := h.exchange(id, h.allow(h.query(id, back), "tester"))
	second := h.refresh(id, first.Refresh)
	if twin := h.refresh(id, first.Refresh); twin.Refresh != second.Refresh || !h.good(twin.Access) {
		t.Errorf("a lost answer is not given again: %+v", twin)
	}
	if h.refresh("another", second.Refresh).Error != "invalid_grant" || !h.good(second.Access) {
		t.Error("another client's use counts")
	}
	h.now = h.now.Add(11 * time.Second)
	if a := h.refresh(id, first.Refresh); a.Error != "invalid_grant" {
		t.Errorf("%+v", a)
	}
	if h.good(first.Access) || h.good(second.Access) || h.refresh(id, second.Refresh).Error == "" {
		t.Error("the client is still in after its token was used twice")
	}
	if !slices.Contains(h.kinds, "token.revoked") {
		t.Errorf("packets %v", h.kinds)
	}
}

func TestCodesThatWereInOtherHands(t *testing.T) {
	for name, steal := range map[string]func(h *house, id, code string) answer{
		"another verifier": func(h *house, id, code string) answer {
			return h.exchange(id, code, "code_verifier", strings.Repeat("x", 43))
		},
		"a short verifier": func(h *house, id, code string) answer { return h.exchange(id, code, "code_verifier", "x") },
		"another client":   func(h *house, _, code string) answer { return h.exchange(h.register("https://evil.example/"), code) },
		"another redirect": func(h *house, id, code string) answer { return h.exchange(id, code, "redirect_uri", back+"/") },
		"another resource": func(h *house, id, code string) answer {
			return h.exchange(id, code, "resource", "https://other.example/mcp")
		},
		"after a minute":     func(h *house, id, code string) answer { h.now = h.now.Add(time.Minute); return h.exchange(id, code) },
		"a second time":      func(h *house, id, code string) answer { h.exchange(id, code); return h.exchange(id, code) },
		"in an address, too": func(h *house, id, code string) answer { return h.post("/oauth/token?code=" + code) },
	} {
		h := newHouse(t)
		id := h.register(back)
		code := h.allow(h.query(id, back), "tester")
		if a := steal(h, id, code); a.Error == "" || a.Access != "" {
			t.Errorf("%s: %+v", name, a)
		}
		if name == "in an address, too" { // it was not looked at
			continue
		}
		if a := h.exchange(id, code); a.Error == "" {
			t.Errorf("%s: the code is good afterwards", name)
		}
		if list := h.tokens.List(); list[0].RevokedAt.IsZero() {
			t.Errorf("%s: the client is in", name)
		}
	}
}

// A client that does not fetch its code is not in: after a minute, and after a restart.
func TestCodesThatAreNotFetched(t *testing.T) {
	h := newHouse(t)
	id := h.register(back)
	h.allow(h.query(id, back), "one")
	h.now = h.now.Add(time.Minute)
	h.allow(h.query(id, back), "two") // looks at the others
	if list := h.tokens.List(); list[0].RevokedAt.IsZero() || !list[1].RevokedAt.IsZero() {
		t.Errorf("%+v", list)
	}
	must(t, h.Load(t.Context()))
	if list := h.tokens.List(); list[1].RevokedAt.IsZero() {
		t.Error("after a restart a client is in that never fetched its code")
	}
}

func TestRevocation(t *testing.T) {
	h := newHouse(t)
	id := h.register(back)
	for n, which := range []func(answer) string{func(a answer) string { return a.Access }, func(a answer) string { return a.Refresh }} {
		got := h.exchange(id, h.allow(h.query(id, back), fmt.Sprint("tester", n)))
		if a := h.post("/oauth/revoke", "token", which(got), "client_id", "another"); a.Error == "" || !h.good(got.Access) {
			t.Errorf("another client's revocation: %+v", a)
		}
		if a := h.post("/oauth/revoke", "token", which(got), "client_id", id); a.Error != "" || h.good(got.Access) {
			t.Errorf("%+v", a)
		}
	}
	if a := h.post("/oauth/revoke", "token", "hra_none"); a.Error != "" {
		t.Errorf("a token that is none: %+v", a)
	}
}

func TestWhereAClientMayBeAnswered(t *testing.T) {
	h := newHouse(t)
	for _, bad := range []string{
		"", "javascript:alert(1)", "data:text/html,x", "http://client.example/cb", "https://", "https://user@client.example/", "https://a.example/#x",
		"//client.example/", "/cb", "https://a.example/\\@b.example", "http://127.0.0.1.evil.example/", "file:///etc/passwd", "https:client.example",
		"http://localhost@evil.example/", "https://a.example/ b", "JavaScript:alert(1)", "view-source:https://a.example",
	} {
		if id := h.register(bad); id != "" {
			t.Errorf("%q is taken", bad)
		}
	}
	id := h.register(back, "http://127.0.0.1:7000/cb?x=1", "cursor://anysphere.cursor-mcp/oauth/callback")
	for redirect, want := range map[string]bool{
		back: true, back + "/": false, back + "?x": false, "https://client.example/Callback": false, "https://client.example:443/callback": false,
		"https://client.example.evil.example/callback": false, "https://CLIENT.example/callback": false, "https://client.example/x/../callback": false,
		"http://127.0.0.1:51234/cb?x=1": true, "http://127.0.0.1/cb?x=1": true, "http://127.0.0.1:51234/cb": false, "http://localhost:7000/cb?x=1": false,
		"http://127.0.0.1:51234/other?x=1": false, "https://127.0.0.1:7000/cb?x=1": false, "http://[::1]:7000/cb?x=1": false,
		"cursor://anysphere.cursor-mcp/oauth/callback": true, "cursor://other/oauth/callback": false, "": false,
	} {
		if _, err := h.Read(t.Context(), h.url, h.query(id, redirect)); (err == nil) != want {
			t.Errorf("%q: %v", redirect, err)
		}
	}
	// A client ID that somebody changed, or made, is none.
	for _, forged := range []string{id + "A", id[:len(id)-1], strings.Replace(id, "hrc_", "hra_", 1), "hrc_e30", "", "client"} {
		if _, err := h.Read(t.Context(), h.url, h.query(forged, back)); err == nil {
			t.Errorf("%q is a client", forged)
		}
	}
}

// The client is told what else is wrong with a request, at its own address and with the issuer.
func TestFaultsGoBack(t *testing.T) {
	h := newHouse(t)
	id := h.register(back)
	for _, c := range []struct{ name, value, fault string }{
		{"response_type", "token", "unsupported_response_type"}, {"code_challenge_method", "plain", "invalid_request"},
		{"code_challenge", "", "invalid_request"}, {"resource", "https://other.example/mcp", "invalid_target"},
		{"resource", h.url + "/v1", "invalid_target"}, {"resource", h.url + ".evil.example/mcp", "invalid_target"},
		{"prompt", "none", "interaction_required"}, {"response_mode", "fragment", "invalid_request"}, {"request", "x.y.z", "request_not_supported"},
	} {
		a, err := h.Read(t.Context(), h.url, h.query(id, back, c.name, c.value))
		must(t, err)
		u, err := url.Parse(a.Back(a.Fault, a.About))
		must(t, err)
		if q := u.Query(); a.Fault != c.fault || q.Get("error") != c.fault || q.Get("iss") != h.url || q.Get("state") != "st&te" {
			t.Errorf("%s=%s: %+v", c.name, c.value, a)
		}
		if _, _, err := h.Allow(h.here("/", ""), principal.Site, oauth.Wish{Query: h.query(id, back, c.name, c.value), Principal: "x",
			Tools: []string{"node"}}); err == nil {
			t.Errorf("%s=%s is let in", c.name, c.value)
		}
	}
	if _, err := h.Read(t.Context(), h.url, h.query(id, back)+"&redirect_uri=https%3A%2F%2Fevil.example"); err == nil {
		t.Error("a parameter that is there twice is taken")
	}
	a, err := h.Read(t.Context(), h.url, h.query(id, back))
	must(t, err)
	if a.Fault != "" || !strings.Contains(a.Back("access_denied", "no"), "error=access_denied") {
		t.Errorf("%+v", a)
	}
}

// No client is let in as a person, with nothing, or with more than was chosen.
func TestWhatAPersonMayChoose(t *testing.T) {
	h := newHouse(t)
	_, _, err := h.tokens.Create(t.Context(), principal.Site, principal.Spec{Principal: "ann", Role: principal.RoleOperator})
	must(t, err)
	id := h.register(back)
	for name, w := range map[string]oauth.Wish{
		"a person's name": {Principal: "ann", Tools: []string{"node"}}, "no tools": {Principal: "x"},
		"a tool that is none": {Principal: "x", Tools: []string{"a,b"}}, "no name": {Tools: []string{"node"}},
		"twenty years": {Principal: "x", Tools: []string{"node"}, TTL: 20 * 365 * 24 * time.Hour},
	} {
		w.Query = h.query(id, back)
		if _, _, err := h.Allow(h.here("/", ""), principal.Site, w); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	agent := principal.Identity{Principal: "bob", Role: principal.RoleAgent}
	if _, _, err := h.Allow(h.here("/", ""), agent, oauth.Wish{Query: h.query(id, back), Principal: "x", Tools: []string{"node"}}); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("an agent lets a client in: %v", err)
	}
}

// Ten thousand strangers leave nothing behind.
func TestManyRegistrations(t *testing.T) {
	h := newHouse(t)
	var register http.Handler
	for _, e := range h.Endpoints() {
		if e.Pattern == "POST /oauth/register" {
			register = e.Handler
		}
	}
	for n := range 10_000 {
		r := httptest.NewRequest(http.MethodPost, "/oauth/register", strings.NewReader(
			fmt.Sprintf(`{"client_name":"n%d","redirect_uris":["https://c%d.example/"]}`, n, n)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if register.ServeHTTP(w, r); w.Code != http.StatusCreated {
			t.Fatalf("%d: %d %s", n, w.Code, w.Body)
		}
	}
	var rows int
	must(t, h.db.Read().QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM oauth_client) + (SELECT count(*) FROM token)`).Scan(&rows))
	if steps := len(h.Steps()); rows != 0 || steps > 400 || len(h.kinds) != 0 {
		t.Errorf("%d rows, %d steps, %d packets", rows, steps, len(h.kinds))
	}
	for _, bad := range []string{`{`, `[]`, `{"redirect_uris":[]}`, `{"redirect_uris":["https://a.example/` + strings.Repeat("x", 600) + `"]}`, strings.Repeat(" ", 40_000)} {
		r := httptest.NewRequest(http.MethodPost, "/oauth/register", strings.NewReader(bad))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if register.ServeHTTP(w, r); w.Code != http.StatusBadRequest {
			t.Errorf("%.40q: %d", bad, w.Code)
		}
	}
}

// A client is who its document says, at its own address.
func TestDocuments(t *testing.T) {
	var served map[string]any
	kind, moved, fetched := "application/json", "", 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched++
		if moved != "" {
			w.Header().Set("Location", moved)
			w.WriteHeader(http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", kind)
		_ = json.NewEncoder(w).Encode(served)
	}))
	t.Cleanup(web.Close)
	host := strings.TrimPrefix(web.URL, "http://")
	h := newHouse(t, host)
	id := web.URL + "/client.json"
	good := func() map[string]any {
		return map[string]any{"client_id": id, "client_name": "Chat", "redirect_uris": []string{back}, "token_endpoint_auth_method": "none"}
	}
	served = good()
	a, err := h.Read(t.Context(), h.url, h.query(id, back))
	must(t, err)
	if a.Client.Host != host || a.Client.Name != "Chat" {
		t.Errorf("%+v", a)
	}
	if _, err = h.Read(t.Context(), h.url, h.query(id, back)); err != nil || fetched != 1 {
		t.Errorf("fetched %d times: %v", fetched, err)
	}
	got := h.exchange(id, h.allow(h.query(id, back), "chat"))
	if !h.good(got.Access) {
		t.Errorf("%+v", got)
	}
	for name, change := range map[string]func(map[string]any){
		"another's":     func(m map[string]any) { m["client_id"] = web.URL + "/other.json" },
		"a secret":      func(m map[string]any) { m["client_secret"] = "s" },
		"another proof": func(m map[string]any) { m["token_endpoint_auth_method"] = "client_secret_post" },
		"no address":    func(m map[string]any) { delete(m, "redirect_uris") },
		"a bad address": func(m map[string]any) { m["redirect_uris"] = []string{"javascript:1"} },
		"too large":     func(m map[string]any) { m["x"] = strings.Repeat("x", 17<<10) },
	} {
		h.now = h.now.Add(10 * time.Minute)
		served = good()
		change(served)
		if _, err := h.Read(t.Context(), h.url, h.query(id, back)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	h.now = h.now.Add(10 * time.Minute)
	served, kind = good(), "text/html"
	if _, err := h.Read(t.Context(), h.url, h.query(id, back)); err == nil {
		t.Error("a page is taken for a document")
	}
	kind, moved = "application/json", web.URL+"/elsewhere.json"
	before := fetched
	if _, err := h.Read(t.Context(), h.url, h.query(id, back)); err == nil || fetched != before+1 {
		t.Errorf("a redirect is followed: %v", err)
	}
}

// A client ID leads the gateway to no address that is not public, and to no other scheme.
func TestDocumentsLeadNowhereElse(t *testing.T) {
	inner := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	t.Cleanup(inner.Close)
	h := newHouse(t)
	for _, id := range []string{
		inner.URL + "/c.json", "https://localhost/c.json", "https://127.1/c.json", "https://[::1]/c.json", "https://169.254.169.254/latest/meta-data",
		"https://10.0.0.1/c.json", "https://[::ffff:127.0.0.1]/c.json", "https://0x7f000001/c.json", "https://2130706433/c.json", "https://0/c.json",
		strings.Replace(inner.URL, "https:", "http:", 1) + "/c.json", "https://example.com", "https://example.com/", "https://u@example.com/c.json",
		"https://example.com/c.json#x", "https://example.com/a/../c.json", "https://example.com\\@127.0.0.1/c.json", "file:///etc/passwd",
		"https://" + strings.Repeat("a", 600) + "/c.json",
	} {
		if a, err := h.Read(t.Context(), h.url, h.query(id, back)); err == nil {
			t.Errorf("%s: %+v", id, a)
		}
	}
}

func TestMetadata(t *testing.T) {
	h := newHouse(t)
	get := func(path string, into any) int {
		resp, err := http.Get(h.url + path)
		must(t, err)
		defer resp.Body.Close()
		_ = json.NewDecoder(resp.Body).Decode(into)
		return resp.StatusCode
	}
	for path, want := range map[string]string{"": "/mcp", "/mcp": "/mcp", "/mcp/l/lane": "/mcp/l/lane"} {
		var about struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
		}
		if status := get("/.well-known/oauth-protected-resource"+path, &about); status != 200 || about.Resource != h.url+want || !slices.Equal(about.Servers, []string{h.url}) {
			t.Errorf("%s: %d %+v", path, status, about)
		}
	}
	if status := get("/.well-known/oauth-protected-resource/v1", &struct{}{}); status != http.StatusNotFound {
		t.Errorf("the API is a resource: %d", status)
	}
	var server map[string]any
	get("/.well-known/oauth-authorization-server", &server)
	if server["issuer"] != h.url || server["authorization_response_iss_parameter_supported"] != true ||
		server["client_id_metadata_document_supported"] != true || fmt.Sprint(server["code_challenge_methods_supported"]) != "[S256]" {
		t.Errorf("%v", server)
	}
	r := h.here("/mcp/l/a%22b", "")
	if c := h.Challenge(r, false, nil); strings.Count(c, `"`) != 4 || !strings.Contains(c, `resource_metadata="`+h.url+`/.well-known/oauth-protected-resource/mcp/l/a%22b"`) {
		t.Errorf("%s", c)
	}
}

// The recorder counts what repeats, and keeps a bounded number of steps.
func TestSteps(t *testing.T) {
	h := newHouse(t)
	for range 5 {
		h.Challenge(h.here("/mcp", ""), false, nil)
	}
	h.exchange("x", "no-code")
	steps := h.Steps()
	if len(steps) != 2 || steps[1].What != oauth.Challenged || steps[1].Times != 5 || steps[0].What != oauth.Fetched || steps[0].Fault == "" {
		t.Errorf("%+v", steps)
	}
}
