package e2e

import (
	"context"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/signin/signintest"
	"github.com/handrail-dev/handrail/test/site"
)

// signer is an admin of a site of the built program, with a browser, and an MCP server that wants a
// sign-in at a real authorization server.
type signer struct {
	*person
	party *signintest.Party
	url   string
	tabs  *http.Client // signed in to the console
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the program")
	}
	party := signintest.Start(t)
	server := mcp.NewServer(&mcp.Implementation{Name: "wiki", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "look", Description: "Looks.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "you sent " + r.Extra.Header.Get("Authorization")}}}, nil, nil
		})
	party.Serves = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	home := privateDir(t)
	s := &signer{party: party, person: &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}}
	site.Program(t, s.program)
	var ready struct {
		HTTP string `json:"http"`
	}
	s.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json")
	if s.url = ready.HTTP; !strings.HasPrefix(s.url, "http") {
		s.url = "http://" + s.url
	}
	s.tabs = s.enter()
	return s
}

// enter signs the admin in to the console.
func (s *signer) enter() *http.Client {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(filepath.Dir(s.program), "site", "gateway", "admin.token"))
	must(s.t, err)
	var made struct {
		Code string `json:"code"`
	}
	newCaller(s.t, s.url, strings.TrimSpace(string(token))).ok(http.MethodPost, "/v1/logins", `{"role":"admin"}`, &made)
	jar, err := cookiejar.New(nil)
	must(s.t, err)
	tabs := &http.Client{Jar: jar}
	if page, status := s.form(tabs, s.url+"/console/login", url.Values{"code": {made.Code}}); status != http.StatusOK {
		s.t.Fatalf("signing in: %d %s", status, page)
	}
	return tabs
}

// form sends one as a page of the site does.
func (s *signer) form(tabs *http.Client, to string, fields url.Values) (page string, status int) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx(), http.MethodPost, to, strings.NewReader(fields.Encode()))
	must(s.t, err)
	at, err := url.Parse(to)
	must(s.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", at.Scheme+"://"+at.Host)
	resp, err := tabs.Do(req)
	must(s.t, err)
	return string(readAll(s.t, resp)), resp.StatusCode
}

// get opens a page, and returns where the browser is then.
func (s *signer) get(at string) (page string, where *url.URL) {
	s.t.Helper()
	resp, err := s.tabs.Get(at)
	must(s.t, err)
	return string(readAll(s.t, resp)), resp.Request.URL
}

var (
	fieldOf = regexp.MustCompile(`<input[^>]* name="([^"]*)" value="([^"]*)"`)
	onwards = regexp.MustCompile(`<code>(https?://[^<]*)</code></pre>`)
)

// begins opens a link of 'provider sign-in', and sends the form that it filled in, with the
// authorization server as the one host more; the page that comes names where to go on.
func (s *signer) begins(link string) (page string, status int) {
	s.t.Helper()
	link, _, _ = strings.Cut(strings.TrimSpace(link), "#")
	form, _ := s.get(link)
	_, form, found := strings.Cut(form, `action="/console/sign-ins"`)
	if !found {
		s.t.Fatalf("the link leads to no form")
	}
	form, _, _ = strings.Cut(form, "</form>")
	fields := url.Values{"net": {strings.TrimPrefix(s.party.Auth.URL, "http://")}}
	for _, f := range fieldOf.FindAllStringSubmatch(form, -1) {
		if f[1] != "net" {
			fields.Set(f[1], html.UnescapeString(f[2]))
		}
	}
	return s.form(s.tabs, s.url+"/console/sign-ins", fields)
}

// signs goes on to the authorization server as that page leads, says yes there, and comes back.
func (s *signer) signs(page string) {
	s.t.Helper()
	to := onwards.FindStringSubmatch(page)
	if to == nil {
		s.t.Fatalf("the page leads nowhere: %s", page)
	}
	_, at := s.get(html.UnescapeString(to[1]))
	id := at.Query().Get("authRequestID")
	if id == "" {
		s.t.Fatalf("no page to sign in: %s", at)
	}
	resp, err := s.tabs.PostForm(at.String(), url.Values{"id": {id}, "username": {"test-user2"}, "password": {"verysecure"}})
	must(s.t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	must(s.t, err)
	_ = resp.Body.Close()
	// The browser was sent back; the page there has it go on, with its session.
	_, next, found := strings.Cut(resp.Header.Get("Refresh"), "url=")
	if !found {
		s.t.Fatalf("sent back to %s, which leads nowhere", resp.Request.URL)
	}
	if page, at := s.get(s.url + next); at.Path != "/console/providers" {
		s.t.Fatalf("%s: %s", at, page)
	}
}

func (s *signer) shown() api.Provider {
	return items[api.Provider](s.person, "provider", "show", "wiki")[0]
}

func (s *signer) calls() (r capabilities.Result) {
	s.t.Helper()
	out, _ := s.tries("", "call", "tool.wiki.look", "--json")
	first, _, _ := strings.Cut(out, "\n")
	must(s.t, json.Unmarshal([]byte(first), &r))
	return r
}

func (s *signer) await(what string, there func() bool) {
	s.t.Helper()
	for end := time.Now().Add(site.Within); !there(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// approvedTwice approves the provider with its token, and then its tools.
func (s *signer) approvedTwice() {
	s.t.Helper()
	s.does("provider", "approve", "wiki", "--yes")
	s.does("provider", "check", "wiki")
	s.does("provider", "approve", "wiki", "--allow", "all", "--yes")
	s.await("the tool", func() bool { return s.shown().Ready })
}

// From a server that wants a sign-in to calls of its tools, by the command line and a browser, in
// the order in which a person finds out: added, signed in, approved, called; refreshed before the
// token ends; revoked by the authorization server, which the provider says, with what to do; signed
// in again; signed out.
func TestFromSignInToCalls(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	const life = 61 // a second more than is left for refreshing
	s.party.Life = life
	server := s.party.Server.URL + "/mcp"
	if out, code := s.tries("", "provider", "add", "mcp", "wiki", "--http", server, "--json"); code == 0 || !strings.Contains(out, `"secret_unavailable"`) || !strings.Contains(out, "--env Authorization=sign-in/") {
		t.Errorf("added without a word of a sign-in: %d %s", code, out)
	}
	if out := s.does("provider", "add", "mcp", "wiki", "--http", server, "--env", "Authorization=sign-in/wiki"); !strings.Contains(out, "needs sign-in") || !strings.Contains(out, "handrail provider sign-in wiki") {
		t.Errorf("%s", out)
	}
	if p := s.shown(); p.Ready || p.Reason != capabilities.ReasonNeedsSignIn || !strings.Contains(p.Fix, "Sign in") {
		t.Errorf("%+v", p)
	}
	if out, code := s.tries("", "provider", "approve", "wiki", "--yes", "--json"); code == 0 || !strings.Contains(out, `"secret_unavailable"`) || !strings.Contains(out, "nobody has signed in as wiki") {
		t.Errorf("approved before the sign-in: %d %s", code, out)
	}
	link := s.does("provider", "sign-in", "wiki")
	page, _ := s.begins(link)
	s.signs(page)
	if p := s.shown(); p.Reason == capabilities.ReasonNeedsSignIn {
		t.Errorf("after the sign-in: %+v", p)
	}
	s.approvedTwice()
	if r := s.calls(); r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), "you sent Bearer [secret]") {
		t.Fatalf("%+v", r)
	}
	// A minute before its end, at once here, the token is refreshed, and the host gets the new one.
	s.await("the token to be refreshed", func() bool {
		s.party.Mu.Lock()
		defer s.party.Mu.Unlock()
		return len(s.party.Refreshed) > 0
	})
	s.await("the next call", func() bool { return s.calls().Status == capabilities.StatusOK })

	// Revoked at the authorization server: the server takes no token any more.
	s.party.Revoke()
	if r := s.calls(); r.Code != capabilities.CodeSecretUnavailable && r.Code != capabilities.CodeNodeNotReady {
		t.Errorf("%+v", r)
	}
	s.await("the provider to need a sign-in", func() bool {
		p := s.shown()
		return !p.Ready && p.Reason == capabilities.ReasonNeedsSignIn && strings.Contains(p.Fix, "Sign in again")
	})
	if out := s.does("provider", "list"); !strings.Contains(out, "needs sign-in") {
		t.Errorf("%s", out)
	}
	if r := s.calls(); r.Code != capabilities.CodeNodeNotReady || !strings.Contains(string(mustJSON(t, r.Details)), string(capabilities.ReasonNeedsSignIn)) {
		t.Errorf("%+v", r)
	}
	s.party.Allow()
	page, _ = s.begins(s.does("provider", "sign-in", "wiki"))
	s.signs(page)
	s.await("the call after another sign-in", func() bool { return s.calls().Status == capabilities.StatusOK })
	// So it is where the gateway has found out that the sign-in ended, and taken the token back: the
	// provider says what it said, so nobody approves it anew.
	s.party.Revoke()
	s.await("the gateway to find the sign-in ended", func() bool { return strings.Contains(s.does("secret", "list", "--json"), `"missing"`) })
	s.await("the provider to need a sign-in", func() bool {
		p := s.shown()
		return !p.Ready && p.Reason == capabilities.ReasonNeedsSignIn && !strings.Contains(p.Fix, "approve the provider")
	})
	s.party.Allow()
	page, _ = s.begins(s.does("provider", "sign-in", "wiki"))
	s.signs(page)
	s.await("the call after a sign-in that had ended", func() bool { return s.calls().Status == capabilities.StatusOK })

	s.does("provider", "sign-out", "wiki")
	s.await("the provider to be signed out", func() bool {
		p := s.shown()
		return !p.Ready && p.Reason == capabilities.ReasonNeedsSignIn && strings.Contains(p.Fix, "Sign in")
	})
	s.await("its calls to say so", func() bool {
		r := s.calls()
		return r.Code == capabilities.CodeNodeNotReady && strings.Contains(string(mustJSON(t, r.Details)), string(capabilities.ReasonNeedsSignIn))
	})
	s.party.Mu.Lock()
	if len(s.party.Revoked) < 2 {
		t.Errorf("%d tokens were revoked", len(s.party.Revoked))
	}
	s.party.Mu.Unlock()
	// Another sign-in and another approval, and it is there again.
	page, _ = s.begins(s.does("provider", "sign-in", "wiki"))
	s.signs(page)
	s.does("provider", "approve", "wiki", "--allow", "all", "--yes")
	s.await("the call after another approval", func() bool { return s.calls().Status == capabilities.StatusOK })
}

// An authorization server that registers nobody by itself says so, with the redirect address to
// register; a client that a person registered there signs in.
func TestSignInWithAClientOfOnesOwn(t *testing.T) {
	s := newSigner(t)
	s.party.Change = func(meta map[string]any) { delete(meta, "registration_endpoint") }
	s.does("provider", "add", "mcp", "wiki", "--http", s.party.Server.URL+"/mcp", "--env", "Authorization=sign-in/wiki")
	page, _ := s.begins(s.does("provider", "sign-in", "wiki"))
	redirect := regexp.MustCompile(regexp.QuoteMeta(s.url) + `/console/sign-ins/[0-9a-f]+`).FindString(page)
	if redirect == "" || !strings.Contains(page, "registers no clients by itself") {
		t.Fatalf("the refusal says no address to register: %s", page)
	}
	s.party.Client("mine", redirect)
	page, _ = s.begins(s.does("provider", "sign-in", "wiki", "--client-id", "mine"))
	if !strings.Contains(page, "client_id=mine") {
		t.Errorf("%s", page)
	}
	s.signs(page)
	s.approvedTwice()
	if r := s.calls(); r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), "you sent Bearer [secret]") {
		t.Fatalf("%+v", r)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	return data
}
