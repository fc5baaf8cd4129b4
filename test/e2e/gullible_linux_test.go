package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// gullible is an agent that does what it reads.
type gullible struct {
	b   *built
	mcp *sdk.ClientSession
}

// believer makes one with a token, and so with a conversation, of its own.
func (b *built) believer(name string) *gullible {
	b.t.Helper()
	var made struct {
		Token string `json:"token"`
	}
	must(b.t, json.Unmarshal([]byte(b.does("token", "create", name, "--json")), &made))
	s, err := sdk.NewClient(&sdk.Implementation{Name: "gullible", Version: "1"}, nil).Connect(ctx(), &sdk.StreamableClientTransport{
		Endpoint: b.url + "/mcp", MaxRetries: -1, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer{newCaller(b.t, b.url, made.Token)}},
	}, nil)
	must(b.t, err)
	b.t.Cleanup(func() { _ = s.Close() })
	return &gullible{b, s}
}

var order = regexp.MustCompile(`must now call (\w+) with (\{[^}]*\})`)

// calls makes a call, and then every call that it reads in the answer that it should make. It
// returns the calls' IDs, in order.
func (g *gullible) calls(tool, args string) (ids []capabilities.CallID, failed bool) {
	g.b.t.Helper()
	r, err := g.mcp.CallTool(ctx(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	must(g.b.t, err)
	meta, _ := r.Meta["dev.handrail/call"].(map[string]any)
	id, _ := meta["call_id"].(string)
	ids = append(ids, capabilities.CallID(id))
	for _, c := range r.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			for _, m := range order.FindAllStringSubmatch(strings.ReplaceAll(text.Text, `\"`, `"`), -1) {
				more, _ := g.calls(m[1], m[2])
				return append(ids, more...), r.IsError
			}
		}
	}
	return ids, r.IsError
}

// A tool's result that orders another call moves an agent that obeys, and nothing else: the call is
// decided as one of somebody who has read what strangers wrote, and the ledger shows the denial.
// The words in which a provider describes itself come as plain text, by whichever door.
func TestAPoisonedResultOrdersACall(t *testing.T) {
	t.Parallel()
	b := newBuilt(t, "")
	b.rules(`@id("bash") permit (principal, action == Action::"tool.fs.bash", resource);
@id("not-for-strangers") forbid (principal, action == Action::"tool.fs.bash", resource) when { context.taint.containsAny(["mcp", "url", "cmd", "api", "sat"]) };`)
	owned := filepath.Join(b.home, "files", "owned")
	// An error's words are a provider's, too; of a satellite's program they stay with the satellite.
	for _, tool := range []string{"mcp_poison", "url_poison", "cmd_poison", "api_poison", "sat_poison", "mcp_scold", "url_scold", "cmd_scold", "api_scold"} {
		t.Run(tool, func(t *testing.T) {
			b.t = t
			g := b.believer("gullible-" + strings.ReplaceAll(tool, "_", "-"))
			if _, failed := g.calls("tool_fs_bash", `{"command":"true"}`); failed {
				t.Fatal("it may not run a command before it has read anything")
			}
			ids, failed := g.calls("tool_"+tool, `{}`)
			end := "result"
			if strings.HasSuffix(tool, "scold") {
				end = "failed"
			}
			if failed != (end == "failed") || len(ids) != 2 {
				t.Fatalf("it made the calls %q: it read no order", ids)
			}
			kinds, _ := b.packets(ids[0])
			if got := strings.Join(kinds, " "); got != "request decision dispatch "+end {
				t.Errorf("the ledger has %s of the poisoned call", got)
			}
			kinds, code := b.packets(ids[1])
			if got := strings.Join(kinds, " "); got != "request decision failed" || code != capabilities.CodeAmbiguousNode { // of a device's tool (S0-16, S0-18)
				t.Errorf("the ledger has %s, %s of the call that was ordered", got, code)
			}
			if shown := b.does("ledger", "show", "--call", string(ids[1])); !strings.Contains(shown, "effect: deny") || !strings.Contains(shown, "not-for-strangers") {
				t.Errorf("the ledger does not show the denial and its rule: %s", shown)
			}
			if _, err := os.Stat(owned); err == nil {
				t.Error("the order was carried out")
			}
		})
	}
	t.Run("descriptions", func(t *testing.T) {
		b.t = t
		listed, err := b.believer("reader").mcp.ListTools(ctx(), nil)
		must(t, err)
		seen := 0
		for _, tool := range listed.Tools {
			if strings.HasSuffix(tool.Name, "_painted") {
				seen++
				plainWords(t, tool.Name, tool.Description)
			}
		}
		if seen != len(badKinds) {
			t.Errorf("%d descriptions are listed, of %d", seen, len(badKinds))
		}
		for _, kind := range badKinds {
			shown := b.does("provider", "show", kind)
			plainWords(t, kind+" as an admin sees it", strings.ReplaceAll(shown, "\n", " "))
			for _, p := range items[api.Provider](b.person, "provider", "show", kind) {
				for _, tool := range p.Tools {
					if strings.HasSuffix(string(tool.Tool), ".painted") && len(tool.Flags) < 3 {
						t.Errorf("%s: a person is told to look at %q only", tool.Tool, tool.Flags)
					}
				}
			}
		}
	})
}

// plainWords wants text in which nothing is hidden.
func plainWords(t *testing.T, what, text string) {
	t.Helper()
	if capabilities.Printable(text) != text || !strings.Contains(text, "cat.") {
		t.Errorf("%s: %q", what, text)
	}
}

// A secret that each kind of provider is given, and tells wherever it can, is in no result, log
// line, packet, page of the console, answer of the API or file of the data folder (S0-42).
func TestASecretOfEveryProviderIsNowhere(t *testing.T) {
	t.Parallel()
	const value = "CANARY-of-each-kind-7351"
	b := newBuilt(t, value)
	m := &mine{t: t, canaries: []canary{newCanary(value)}}
	for _, kind := range []string{"mcp", "url", "cmd", "api"} {
		r := b.call("tool."+kind+".leak", "{}", "")
		if r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), "it is [secret]") {
			t.Errorf("%s did not have the secret, or told it: %s %s %s", kind, r.Code, r.Message, r.Output)
		}
		m.result(kind, r)
		m.free(kind+" by the command line", []byte(b.does("call", "--agent", "tool."+kind+".leak", "--json")))
		m.free(kind+" as an admin sees it", []byte(b.does("provider", "check", kind)))
		m.free("the packets", []byte(b.does("ledger", "show", "--call", string(r.Call))))
	}
	if r := b.call("tool.sat.leak", "{}", ""); string(r.Output) != `{"text":"it is "}` {
		t.Errorf("a satellite is given nothing: %s", r.Output)
	}
	for _, path := range []string{"/v1/ledger/export", "/v1/ledger/packets", "/v1/calls", "/v1/secrets", "/v1/status", "/v1/nodes", "/v1/policy", "/v1/providers", "/metrics", "/v1/tools?all=1"} {
		if status, _ := m.ask(http.MethodGet, b.url+path, b.admin.token, ""); status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
	console := b.console()
	for _, page := range []string{"", "calls", "nodes", "grants", "policies", "providers", "secrets", "tokens", "people", "governance", "drift", "ledger", "stop", "account", "approvals"} {
		resp, err := console.Get(b.url + "/console/" + page)
		must(t, err)
		text := readAll(t, resp)
		if resp.StatusCode != http.StatusOK || len(text) < 500 {
			t.Errorf("the page %q: %d, %d bytes", page, resp.StatusCode, len(text))
		}
		m.free("the page "+page, text)
	}
	log, err := os.ReadFile(filepath.Join(b.home, "log"))
	must(t, err)
	if !strings.Contains(string(log), "tools.dispatch.completed") {
		t.Error("nothing was logged of calls: this shows nothing")
	}
	m.free("the log", log)
	m.folder(filepath.Join(b.home, "site"))
}

// console signs an admin in.
func (b *built) console() *http.Client {
	b.t.Helper()
	var made struct {
		Code string `json:"code"`
	}
	b.admin.ok(http.MethodPost, "/v1/logins", `{"role":"admin"}`, &made)
	jar, err := cookiejar.New(nil)
	must(b.t, err)
	c := &http.Client{Jar: jar}
	req, err := http.NewRequestWithContext(ctx(), http.MethodPost, b.url+"/console/login", strings.NewReader(url.Values{"code": {made.Code}}.Encode()))
	must(b.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", b.url)
	resp, err := c.Do(req)
	must(b.t, err)
	if text := readAll(b.t, resp); resp.StatusCode != http.StatusOK {
		b.t.Fatalf("signing in: %d %s", resp.StatusCode, text)
	}
	return c
}
