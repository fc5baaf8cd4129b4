package conformance

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/oauth"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// behind is a gateway behind a TLS proxy, with an admin's browser that is not signed in.
type behind struct {
	*site.Site
	base  string
	proxy *httptest.Server
	tabs  *http.Client
}

func startBehind(t *testing.T, door ...func(*gateway.Options)) *behind {
	t.Helper()
	proxy := httptest.NewUnstartedServer(nil)
	b := &behind{base: "https://" + proxy.Listener.Addr().String(), proxy: proxy}
	b.Site = site.Start(t, site.Options{Door: func(o *gateway.Options) {
		o.URL, o.Proxies = b.base, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		for _, change := range door {
			change(o)
		}
	}})
	to, err := url.Parse(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy.Config.Handler = &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}}
	proxy.StartTLS()
	t.Cleanup(proxy.Close)
	b.tabs = proxy.Client()
	if b.tabs.Jar, err = cookiejar.New(nil); err != nil {
		t.Fatal(err)
	}
	return b
}

// opens a page, and returns it with where the browser is then and where it goes on to.
func (b *behind) opens(req *http.Request) (page, onward string, at *url.URL) {
	b.T.Helper()
	resp, err := b.tabs.Do(req)
	if err != nil {
		b.T.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.T.Fatal(err)
	}
	_, onward, _ = strings.Cut(resp.Header.Get("Refresh"), "url=")
	return string(body), onward, resp.Request.URL
}

func (b *behind) get(to string) (page, onward string, at *url.URL) {
	b.T.Helper()
	req, err := http.NewRequestWithContext(b.T.Context(), http.MethodGet, to, nil)
	if err != nil {
		b.T.Fatal(err)
	}
	return b.opens(req)
}

func (b *behind) post(to string, fields url.Values) (page, onward string, at *url.URL) {
	b.T.Helper()
	req, err := http.NewRequestWithContext(b.T.Context(), http.MethodPost, to, strings.NewReader(fields.Encode()))
	if err != nil {
		b.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", b.base)
	return b.opens(req)
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)

// letsIn is a person whom a client sent here: they sign in, choose, and are sent back.
func (b *behind) letsIn(sent, as string, tools ...string) (back string) {
	b.T.Helper()
	_, onward, _ := b.get(sent)
	page, _, at := b.get(b.base + onward)
	if at.Path == "/console/login" {
		who, err := b.Tokens.Authenticate(b.MustToken("ann", principal.RoleAdmin))
		if err != nil {
			b.T.Fatal(err)
		}
		code, _, err := b.Tokens.Login(who, principal.RoleAdmin)
		if err != nil {
			b.T.Fatal(err)
		}
		page, _, at = b.post(b.base+"/console/login", url.Values{"code": {code.Reveal()}})
	}
	if at.Path != "/console/authorize" || !strings.Contains(page, "asks to be let in") {
		b.T.Fatalf("at %s: %s", at.Path, page)
	}
	_, form, _ := strings.Cut(page, `action="/console/authorize"`)
	fields := url.Values{"answer": {"allow"}, "principal": {as}, "tool": tools, "days": {"30"}}
	for _, f := range hiddenField.FindAllStringSubmatch(form, -1) {
		fields.Set(f[1], html.UnescapeString(f[2]))
	}
	page, back, _ = b.post(b.base+"/console/authorize", fields)
	if back == "" {
		b.T.Fatalf("not sent back: %s", page)
	}
	return back
}

// authority is a file with the proxy's certificate.
func (b *behind) authority() string {
	b.T.Helper()
	file := filepath.Join(b.T.(*testing.T).TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.proxy.Certificate().Raw})
	if err := os.WriteFile(file, cert, 0o600); err != nil {
		b.T.Fatal(err)
	}
	return file
}

// The official client has the address and nothing else: it finds out where tokens come from,
// registers, sends the person, fetches its tokens, calls, and refreshes a token that it lost.
func TestOAuthClient(t *testing.T) {
	dir := packages(t)
	b := startBehind(t)
	seen := b.comesIn(dir)
	for _, want := range []oauth.Kind{oauth.Challenged, oauth.ReadResource, oauth.ReadServer, oauth.Registered, oauth.Asked, oauth.Allowed, oauth.Fetched,
		oauth.Called, oauth.Refused, oauth.Refreshed} {
		if !seen[want] {
			t.Errorf("no step %q", want)
		}
	}
}

// comesIn runs the official client until it has called twice, and returns the steps that it took.
func (b *behind) comesIn(dir string, document ...string) map[oauth.Kind]bool {
	t := b.T.(*testing.T)
	t.Helper()
	script, err := filepath.Abs("testdata/oauth.mjs")
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(dir, "node_modules")
	cmd := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "node"), append([]string{script, modules, b.base + "/mcp"}, document...)...)
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+b.authority())
	var said strings.Builder
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var first struct {
		Sent string `json:"sent"`
	}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &first) != nil || first.Sent == "" {
		t.Fatalf("%s; %v\n%s", lines.Text(), cmd.Wait(), said.String())
	}
	back := b.letsIn(first.Sent, "claude", "node")
	if _, err := io.WriteString(in, back+"\n"); err != nil {
		t.Fatal(err)
	}
	var then struct {
		Listed          []string `json:"listed"`
		Same, Refreshed bool
	}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &then) != nil {
		t.Fatalf("%s; %v\n%s", lines.Text(), cmd.Wait(), said.String())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
	if !slices.Equal(then.Listed, []string{"tool_node_list"}) || !then.Same || !then.Refreshed {
		t.Errorf("%+v", then)
	}
	seen := map[oauth.Kind]bool{}
	for _, s := range b.Clients.Steps() {
		seen[s.What] = true
	}
	return seen
}

// The suite's own look at an authorization server: its metadata, and a code that is fetched.
func TestOAuthServerConforms(t *testing.T) {
	dir := packages(t)
	b := startBehind(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	resp, err := b.proxy.Client().Post(b.base+"/oauth/register", "application/json",
		strings.NewReader(`{"client_name":"suite","redirect_uris":["http://127.0.0.1/callback"]}`))
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		ID string `json:"client_id"`
	}
	err = json.NewDecoder(resp.Body).Decode(&made)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(dir, "node_modules")
	cmd := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "node"), filepath.Join(modules, filepath.FromSlash(next)), "authorization",
		"--url", b.base, "--client-id", made.ID, "--resource", b.base+"/mcp", "--port", port)
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+b.authority())
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), b.base+"/oauth/authorize") {
			if _, _, at := b.get(b.letsIn(lines.Text(), "suite", "node")); at.Hostname() != "127.0.0.1" {
				t.Errorf("sent back to %s", at)
			}
		}
	}
	if err := cmd.Wait(); err != nil || strings.Contains(said.String(), "SKIPPED") || !strings.Contains(said.String(), "authorization-code-grant") {
		t.Errorf("%v\n%s\n%s", err, said.String(), complaints.String())
	}
}

// sends makes a request with headers, and returns its status and body.
func (b *behind) sends(c *http.Client, method, to, body string, headers ...string) (int, string) {
	b.T.Helper()
	req, err := http.NewRequestWithContext(b.T.Context(), method, to, strings.NewReader(body))
	if err != nil {
		b.T.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		b.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.T.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// No page of somebody else's says yes in a person's place, and what a client gets is good for MCP
// alone.
func TestConsentIsForgedByNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway")
	}
	b := startBehind(t)
	stranger := &http.Client{Transport: b.proxy.Client().Transport}
	status, body := b.sends(stranger, http.MethodPost, b.base+"/oauth/register", `{"client_name":"Chat","redirect_uris":["https://chat.example/cb"]}`,
		"Content-Type", "application/json")
	var made struct {
		ID string `json:"client_id"`
	}
	if json.Unmarshal([]byte(body), &made) != nil || made.ID == "" {
		t.Fatalf("%d %s", status, body)
	}
	const verifier = "a-verifier-that-is-long-enough-for-rfc-7636-abc"
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {made.ID}, "redirect_uri": {"https://chat.example/cb"}, "state": {"s"}, "resource": {b.base + "/mcp"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()
	asks := b.base + "/oauth/authorize?" + query

	// A client's page may send the browser here; it may load nothing from here.
	cross := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode"}
	if status, _ := b.sends(stranger, http.MethodGet, asks, "", append(cross, "navigate", "Sec-Fetch-Dest", "document")...); status != http.StatusOK {
		t.Errorf("a client's page cannot send a browser here: %d", status)
	}
	for _, dest := range []string{"iframe", "image", "empty"} {
		if status, _ := b.sends(stranger, http.MethodGet, asks, "", append(cross, "navigate", "Sec-Fetch-Dest", dest)...); status == http.StatusOK {
			t.Errorf("a page of somebody else's loads it as %s", dest)
		}
	}
	// A stranger says nothing.
	if status, body := b.sends(stranger, http.MethodPost, b.base+"/console/authorize", "answer=allow&request="+url.QueryEscape(query),
		"Content-Type", "application/x-www-form-urlencoded", "Origin", b.base); status == http.StatusOK {
		t.Errorf("without a session: %s", body)
	}
	back, err := url.Parse(b.letsIn(asks, "chat", "node"))
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"answer": {"allow"}, "request": {query}, "principal": {"evil"}, "tool": {"node"}}.Encode()
	kind := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for name, origin := range map[string]string{"another page": "https://evil.example", "no csrf": b.base} {
		if status, body := b.sends(b.tabs, http.MethodPost, b.base+"/console/authorize", form, append(kind, "Origin", origin)...); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}

	_, body = b.sends(stranger, http.MethodPost, b.base+"/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "client_id": {made.ID}, "code_verifier": {verifier},
	}.Encode(), kind...)
	var got struct {
		Access string `json:"access_token"`
	}
	if json.Unmarshal([]byte(body), &got) != nil || got.Access == "" {
		t.Fatalf("%s", body)
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	bearer := []string{"Authorization", "Bearer " + got.Access, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	if status, body := b.sends(stranger, http.MethodPost, b.base+"/mcp", call, bearer...); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	for _, elsewhere := range []string{b.base + "/v1/tools", b.base + "/v1/tokens", b.URL() + "/mcp", b.base + "/metrics"} {
		if status, body := b.sends(stranger, http.MethodGet, elsewhere, "", bearer...); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", elsewhere, status, body)
		}
	}
	if status, body := b.sends(stranger, http.MethodPost, b.base+"/mcp?access_token="+got.Access, call, bearer[2:]...); status != http.StatusUnauthorized {
		t.Errorf("a token in an address: %d %s", status, body)
	}
	// The person takes it out, and it is out at once.
	for _, tok := range b.Tokens.List() {
		if tok.Client != "" && tok.RevokedAt.IsZero() {
			if _, err := b.Tokens.Revoke(t.Context(), principal.Site, tok.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if status, _ := b.sends(stranger, http.MethodPost, b.base+"/mcp", call, bearer...); status != http.StatusUnauthorized {
		t.Errorf("a client that was taken out is in: %d", status)
	}
}
