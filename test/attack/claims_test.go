package attack

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// state is everything that says who may do what, read with an admin's token.
func (a *arena) state(admin string) string {
	a.t.Helper()
	var out strings.Builder
	for _, k := range a.Tokens.List() {
		fmt.Fprintln(&out, "token", k.ID, k.Principal, k.Role, a.Tokens.Valid(k.ID))
	}
	for _, n := range a.Nodes.Snapshot() {
		v, err := a.Nodes.View(n.ID)
		fmt.Fprintln(&out, "node", v.ID, v.State, v.Label, v.Trust, v.Allow, err)
	}
	for _, g := range a.Consent.Grants() {
		fmt.Fprintln(&out, "grant", g.ID, g.Tools)
	}
	for _, w := range a.Consent.Approvals() {
		fmt.Fprintln(&out, "approval", w.ID, w.State)
	}
	epoch, on := a.Switch.Now()
	fmt.Fprintln(&out, "policy", a.Rules().SnapshotID(), "stopped", epoch, on)
	for _, path := range []string{"/v1/invites", "/v1/secrets"} {
		_, body := a.do(admin, "GET", path, "")
		fmt.Fprintln(&out, path, body)
	}
	fmt.Fprintln(&out, "attached", a.Lanes.Attached("main"), a.Lanes.Attached("agent"))
	return out.String()
}

// All that an agent, or somebody without a token, sends to any address that there
// is, with everything an admin could say: nothing of who may do what changes.
func TestNoWayInGivesMore(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	admin := a.MustToken("root", principal.RoleAdmin)
	if r := a.press(caller("agent", "agent"), `{"text":"wanted"}`); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	// A grant for somebody else, and for a tool that is no input, which the agent
	// could revoke or take.
	if _, err := a.Consent.Grant(t.Context(), consent.Spec{Principal: "other", Tools: []string{"tool.fixture.echo"}, Node: a.node.ID, AnyLane: true, Approver: "anna"}); err != nil {
		t.Fatal(err)
	}
	_, text := a.do(admin, "GET", "/v1/openapi.json", "")
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Paths) < 30 {
		t.Fatalf("%d addresses: %v", len(doc.Paths), err)
	}
	known := strings.NewReplacer("{node}", string(a.node.ID), "{approval}", a.waiting().ID, "{grant}", a.Consent.Grants()[0].ID, "{token}", a.Tokens.List()[0].ID,
		"{lane}", "main", "{secret}", "mail", "{set}", "staged", "{invite}", "i-1", "{task}", "t-1")
	bodies := []string{
		"", `{}`, `{"answer":"allow","acknowledged":true}`, `{"answer":"deny"}`, `{"answer":"allow","acknowledged":true,"kind":"lease","family":true}`, `{"principal":"agent","role":"admin"}`, `{"principal":"agent","role":"agent"}`,
		fmt.Sprintf(`{"principal":"agent","tools":["tool.fixture.press"],"node":%q,"any_lane":true}`, a.node.ID), `{"allow":["*"],"trust":"full"}`, `{"label":"mine"}`,
		`{"value":"x"}`, `{"principal":"agent","alias":"m","display_name":"M"}`, `{"auto_approve":true,"allow":["*"]}`, `{"reason":"x"}`,
		fmt.Sprintf(`{"from":%q,"to":%q}`, a.Rules().SnapshotID(), a.Rules().SnapshotID()),
	}
	before, tried, ok := a.state(admin), 0, 0
	for path, methods := range doc.Paths {
		for method := range methods {
			if strings.HasSuffix(path, "/events") {
				continue // it stays open; rest has its own tests of who may listen
			}
			for _, token := range []string{a.agent, "", "hrt_" + strings.Repeat("A", 43)} {
				for _, body := range bodies {
					if method == "get" && body != "" {
						continue
					}
					status, _ := a.do(token, strings.ToUpper(method), known.Replace(path), body)
					tried++
					if status == http.StatusOK {
						ok++
					}
				}
			}
		}
		if after := a.state(admin); after != before {
			t.Fatalf("%s changed\n%s\ninto\n%s", path, before, after)
		}
	}
	if a.h.Runs("wanted") != 0 || tried < 500 || ok == 0 {
		t.Errorf("%d requests, %d of them answered, ran %d times", tried, ok, a.h.Runs("wanted"))
	}
	// The control: an admin changes all of it by the same addresses.
	for _, request := range [][3]string{
		{"PATCH", "/v1/nodes/{node}", `{"label":"mine"}`}, {"POST", "/v1/tokens", `{"principal":"new","role":"agent"}`}, {"POST", "/v1/approvals/{approval}", `{"answer":"allow","acknowledged":true}`},
		{"DELETE", "/v1/grants/{grant}", ""}, {"PUT", "/v1/lanes/main/nodes/{node}", ""}, {"POST", "/v1/stop", `{"reason":"x"}`},
	} {
		was := a.state(admin)
		if status, body := a.do(admin, request[0], known.Replace(request[1]), request[2]); status != http.StatusOK || a.state(admin) == was {
			t.Errorf("%v: %d %s", request, status, body)
		}
	}
}

// A token of another gateway is none here.
func TestATokenOfAnotherSite(t *testing.T) {
	a, b := enter(t, site.Options{}), enter(t, site.Options{})
	for _, token := range []string{b.agent, b.operator, b.MustToken("root", principal.RoleAdmin)} {
		if status, body := a.do(token, "POST", "/v1/calls", `{"tool":"tool.fixture.echo","args":{"text":"foreign"}}`); status != http.StatusUnauthorized || a.h.Runs("foreign")+b.h.Runs("foreign") != 0 {
			t.Errorf("%d %s", status, body)
		}
	}
	if status, body := b.do(b.agent, "POST", "/v1/calls", `{"tool":"tool.fixture.echo","args":{"text":"home"}}`); status != http.StatusOK || b.h.Runs("home") != 1 {
		t.Errorf("the control: %d %s", status, body)
	}
}

// An MCP client's claim of its own authority, in metadata, capabilities, headers or arguments, is
// not authority.
func TestClaimsOfAnMCPClient(t *testing.T) {
	a := enter(t, site.Options{})
	client := sdk.NewClient(&sdk.Implementation{Name: "admin", Title: "approved", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Experimental: map[string]any{"scopes": []string{"admin", "privileged.input.inject"}, "role": "admin"}},
	})
	headers := http.Header{"X-Role": {"admin"}, "X-Principal": {"anna"}, "X-Forwarded-User": {"anna"}, "X-Approved": {"true"}, "X-Scopes": {"*"}, "Cookie": {"token=" + a.operator}}
	s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: a.URL() + "/mcp", HTTPClient: &http.Client{Transport: claiming{bearer{a.agent, a.client.Transport}, headers}}, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	call := func(args map[string]any) *sdk.CallToolResult {
		res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "tool_fixture_press", Arguments: args, Meta: sdk.Meta{
			"approved": true, "role": "admin", "principal": "anna", "scopes": []string{"*"}, "grant": "g-1", "dev.handrail/grant": "g-1", "authority": map[string]any{"role": "admin"},
		}})
		if err != nil { // refused before it was a call
			return &sdk.CallToolResult{IsError: true}
		}
		return res
	}
	for _, args := range []map[string]any{
		{"text": "mcp"}, {"text": "mcp", "_meta": map[string]any{"approved": true}}, {"text": "mcp", "authority": map[string]any{"role": "admin"}}, {"text": "mcp", "scopes": []string{"*"}},
	} {
		if res := call(args); !res.IsError || a.h.Runs("mcp") != 0 {
			t.Errorf("%v: %+v, ran %d times", args, res.StructuredContent, a.h.Runs("mcp"))
		}
	}
	a.Grant("agent", a.node, "tool.fixture.press")
	if res := call(map[string]any{"text": "mcp"}); res.IsError || a.h.Runs("mcp") != 1 {
		t.Errorf("the control: %+v", res.StructuredContent)
	}
}

// claiming adds headers to every request.
type claiming struct {
	next    http.RoundTripper
	headers http.Header
}

func (c claiming) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range c.headers {
		r.Header[name] = values
	}
	return c.next.RoundTrip(r)
}

// A short PIN that was typed is not to be guessed from what the gateway exports or
// from what lies on the device's disk: no digest there is one that somebody without
// the sealed keys can compute.
func TestATypedPINCanNotBeGuessed(t *testing.T) {
	a := enter(t, site.Options{})
	const pin = "4711"
	a.Grant("agent", a.node, "tool.fixture.*")
	// Echo's text is a secret argument, as what desktop and browser type is.
	if r := a.call(site.ToolEcho, `{"text":"`+pin+`"}`); r.Status != capabilities.StatusOK || a.h.Runs(pin) != 1 {
		t.Fatalf("%+v", r)
	}
	var export bytes.Buffer
	if err := a.Ledger.Export(context.Background(), &export); err != nil {
		t.Fatal(err)
	}
	a.node.Stop()
	found := export.String()
	err := filepath.WalkDir(filepath.Join(a.node.Dir, "journal"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, readErr := os.ReadFile(path)
			found, err = found+"\n"+string(data), readErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	public := words(export.String())
	if got := guess(found, public, 0, 10_000); len(got) != 0 {
		t.Errorf("guessed %q", got)
	}
	// The control: the same search finds a digest that is not keyed, and one keyed by
	// something that is exported.
	for _, planted := range [][]byte{digest(sha256.New(), `{"text":"`+pin+`"}`), digest(hmac.New(sha256.New, []byte(public[0])), pin)} {
		if got := guess(found[:min(len(found), 4096)]+" "+hex.EncodeToString(planted), public, 4700, 4720); !slices.Contains(got, pin) {
			t.Fatal("the search would not find it")
		}
	}
}

func digest(h hash.Hash, text string) []byte {
	h.Write([]byte(text))
	return h.Sum(nil)
}

// words are what an export holds that could be a key: IDs, hashes and nonces, as
// they stand and decoded; some dozens of them.
func words(export string) []string {
	var all []string
	for _, w := range regexp.MustCompile(`[A-Za-z0-9_:+/=-]{16,}`).FindAllString(export, -1) {
		if slices.Contains(all, w) {
			continue
		}
		all = append(all, w)
		if raw, err := hex.DecodeString(strings.TrimPrefix(w, "sha256:")); err == nil {
			all = append(all, string(raw))
		}
		if len(all) > 50 {
			break
		}
	}
	return all
}

// guess tries every PIN of four digits from the first to before the last, in the forms
// it could have been hashed in.
func guess(found string, keys []string, first, last int) (pins []string) {
	have := map[[8]byte]bool{} // every eight bytes there, as they stand and decoded
	look := func(raw []byte) {
		for i := 0; i+8 <= len(raw); i++ {
			have[[8]byte(raw[i:])] = true
		}
	}
	look([]byte(found))
	for _, w := range regexp.MustCompile(`[0-9a-fA-F]{32,}`).FindAllString(found, -1) {
		raw, _ := hex.DecodeString(w[:len(w)/2*2])
		look(raw)
	}
	for _, w := range regexp.MustCompile(`[A-Za-z0-9+/_-]{22,}`).FindAllString(found, -1) {
		raw, _ := base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(w))
		look(raw)
	}
	for n := first; n < last; n++ {
		pin := fmt.Sprintf("%04d", n)
		for _, text := range []string{pin, `"` + pin + `"`, `{"text":"` + pin + `"}`, "/text=" + pin} {
			sum256, sum512 := sha256.Sum256([]byte(text)), sha512.Sum512([]byte(text))
			if have[[8]byte(sum256[:])] || have[[8]byte(sum512[:])] {
				pins = append(pins, pin)
			}
		}
	}
	// With keys, only for the PIN and its neighbours: a key that gives one gives all.
	for _, pin := range []string{"4710", "4711", "4712"} {
		for _, key := range keys {
			for _, text := range []string{pin, `{"text":"` + pin + `"}`} {
				if have[[8]byte(digest(hmac.New(sha256.New, []byte(key)), text))] {
					pins = append(pins, pin)
				}
			}
		}
	}
	return pins
}
