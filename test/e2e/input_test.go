package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// badArguments are arguments that do not fit, with the paths that must be named.
var badArguments = []struct {
	name  string
	tool  capabilities.ToolID
	args  string
	code  capabilities.Code
	paths []string
}{
	{"missing", site.ToolEcho, `{}`, capabilities.CodeInvalidArguments, []string{"/text"}},
	{"extra", site.ToolEcho, `{"text":"a","more":1}`, capabilities.CodeInvalidArguments, []string{"/more"}},
	{"ill-typed", site.ToolEcho, `{"text":5}`, capabilities.CodeInvalidArguments, []string{"/text"}},
	{"out of bounds", site.ToolImage, `{"text":"a","size":0}`, capabilities.CodeInvalidArguments, []string{"/size"}},
	{"too long", site.ToolEcho, text(strings.Repeat("a", 5000)), capabilities.CodeInvalidArguments, []string{"/text"}},
	{"all at once", site.ToolImage, `{"text":5,"more":true,"also":null}`, capabilities.CodeInvalidArguments, []string{"/also", "/more", "/size", "/text"}},
	{"routing field ill-typed", site.ToolEcho, `{"text":"a","node_id":7}`, capabilities.CodeInvalidArguments, []string{"/node_id"}},
	{"time limit out of bounds", site.ToolEcho, `{"text":"a","timeout_ms":0}`, capabilities.CodeInvalidArguments, []string{"/timeout_ms"}},
	{"not an object", site.ToolEcho, `["a"]`, "", nil}, // refused by the surface or by the schema
}

// violated returns the paths of an invalid_arguments error's details.
func violated(t *testing.T, details any) []string {
	t.Helper()
	data, err := json.Marshal(details)
	must(t, err)
	var list []catalog.Violation
	must(t, json.Unmarshal(data, &list))
	paths := make([]string, 0, len(list))
	for _, v := range list {
		if v.Message == "" {
			t.Errorf("%s is violated without a word", v.Path)
		}
		paths = append(paths, v.Path)
	}
	slices.Sort(paths)
	return paths
}

// Arguments that do not fit are refused by whichever door, before governance sees the call (S4-03,
// S4-41).
func TestArgumentsThatDoNotFit(t *testing.T) {
	h, handler, _ := one(t)
	rest, mcp := h.client(principal.RoleAgent), h.session(h.MustToken("mcp-agent", principal.RoleAgent))
	for _, c := range badArguments {
		t.Run(c.name, func(t *testing.T) {
			r := h.Call(t.Context(), c.tool, c.args, "")
			if c.code == "" {
				if r.Status != capabilities.StatusError {
					t.Errorf("%+v", r)
				}
				return
			}
			h.refused(r, capabilities.StatusError, c.code)
			if got := violated(t, r.Details); !slices.Equal(got, c.paths) {
				t.Errorf("violations at %q, want %q", got, c.paths)
			}
			// Governance was never reached: no envelope, no policy.
			if body := string(h.story(r.Call).bodys[1]); strings.Contains(body, "envelope") || strings.Contains(body, `"policies"`) {
				t.Errorf("the decision was %s", body)
			}
			r, err := rest.call(t.Context(), c.tool, c.args, "")
			must(t, err)
			if got := violated(t, r.Details); r.Code != c.code || !slices.Equal(got, c.paths) {
				t.Errorf("REST: %s at %q", r.Code, got)
			}
			code, details := mcpCall(t, mcp, c.tool, c.args)
			if got := violated(t, details); code != c.code || !slices.Equal(got, c.paths) {
				t.Errorf("MCP: %s at %q", code, got)
			}
		})
	}
	t.Run("JSON that is not strict", func(t *testing.T) {
		for _, args := range []string{`{"text":"a","text":"b"}`, `{"text":"a","Text":"b"}`, `{"text":9007199254740993}`, `{"text":"a"`, `{"text":"\ud800"}`, ``, "\xff"} {
			r := h.Call(t.Context(), site.ToolEcho, args, "")
			if r.Status != capabilities.StatusError || r.Code != capabilities.CodeInvalidRequest && r.Code != capabilities.CodeInvalidArguments {
				t.Errorf("%q: %+v", args, r)
			}
			h.wantStory(r.Call, "request", "decision", "failed")
		}
	})
	if n := handler.Runs("a") + handler.Runs("b"); n != 0 {
		t.Errorf("%d of them ran", n)
	}
}

func TestUnknownTool(t *testing.T) {
	h, _, _ := one(t)
	rest, mcp := h.client(principal.RoleAgent), h.session(h.MustToken("mcp-agent", principal.RoleAgent))
	for _, id := range []capabilities.ToolID{
		"tool.fixture.nothing", "tool.browser.clicks", "tyrum.fixture.echo", "tool_fixture_echo", "../etc/passwd", "tool.fixture.echo\n", "",
		"tool.desktop.clipboard-write", // it is there, but for no model
	} {
		r := h.Call(t.Context(), id, `{"text":"a"}`, "")
		h.refused(r, capabilities.StatusError, capabilities.CodeUnknownTool)
		if want := fmt.Sprintf("there is no tool %q", id); r.Message != want {
			t.Errorf("%q: the message is %q", id, r.Message)
		}
		if id == "" || strings.Contains(string(id), "\n") {
			continue
		}
		// REST may refuse what is no tool ID at all before the pipeline.
		status, answer := rest.do(http.MethodPost, "/v1/calls", callBody(id, `{"text":"a"}`, ""))
		if !strings.Contains(string(answer), `"unknown_tool"`) {
			t.Errorf("REST %q: %d %s", id, status, answer)
		}
		if _, err := mcp.CallTool(t.Context(), &sdk.CallToolParams{Name: string(id), Arguments: map[string]any{}}); id != "tool_fixture_echo" && err == nil {
			t.Errorf("MCP knows a tool %q", id)
		}
	}
}

func TestNamesThatCanNotBeRecorded(t *testing.T) {
	h, handler, _ := one(t)
	for _, r := range []capabilities.Result{
		h.by("agent", "", site.ToolEcho, text("a"), ""),
		h.by("agent", capabilities.LaneID(strings.Repeat("l", 200)), site.ToolEcho, text("a"), ""),
		h.by("agent", "main", site.ToolEcho, text("a"), capabilities.RequestID(strings.Repeat("r", 200))),
		h.by("agent", "main", site.ToolEcho, text("a"), "a\nb"),
	} {
		want(t, r, capabilities.StatusError, capabilities.CodeInvalidRequest)
	}
	if handler.Runs("a") != 0 {
		t.Error("one of them ran")
	}
}

// turnedAway wants every surface to refuse the client's token.
func turnedAway(c *caller) {
	c.t.Helper()
	code := capabilities.CodeUnauthenticated
	c.fails(http.MethodPost, "/v1/calls", callBody(site.ToolEcho, text("a"), ""), code)
	c.fails(http.MethodGet, "/v1/tools", "", code)
	if status, _ := c.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`); status != code.Info().HTTP {
		c.t.Errorf("MCP: %d", status)
	}
}

// S4-30.
func TestWrongToken(t *testing.T) {
	h, handler, _ := one(t)
	for _, token := range []string{"", "hrt_" + strings.Repeat("A", 43), h.MustToken("cut", principal.RoleAgent)[:40]} {
		turnedAway(newCaller(t, h.URL(), token))
	}
	// A client that guesses on is slowed down; one with a token is not.
	guesser := newCaller(t, h.URL(), "hrt_"+strings.Repeat("B", 43))
	for status := 0; status != http.StatusTooManyRequests; {
		status, _ = guesser.do(http.MethodGet, "/v1/tools", "")
		if status != http.StatusTooManyRequests && status != http.StatusUnauthorized {
			t.Fatal(status)
		}
	}
	if r, err := h.client(principal.RoleAgent).call(ctx(), site.ToolEcho, text("b"), ""); err != nil || r.Status != capabilities.StatusOK {
		t.Errorf("%+v, %v", r, err)
	}
	if handler.Runs("a") != 0 {
		t.Error("one of them ran")
	}
}

func TestRevokedToken(t *testing.T) {
	h, handler, _ := one(t)
	token, secret, err := h.Tokens.Create(ctx(), principal.Site, principal.Spec{Principal: "left", Role: principal.RoleAgent, Lane: "left"})
	must(t, err)
	c, mcp := newCaller(t, h.URL(), secret.Reveal()), h.session(secret.Reveal())
	if r, err := c.call(ctx(), site.ToolEcho, text("before"), ""); err != nil || r.Status != capabilities.StatusOK {
		t.Fatalf("%+v, %v", r, err)
	}
	if code, _ := mcpCall(t, mcp, site.ToolEcho, text("before")); code != "" {
		t.Fatal(code)
	}
	_, err = h.Tokens.Revoke(ctx(), principal.Site, token.ID)
	must(t, err)
	turnedAway(c)
	// Nor does the session that was open live on.
	if _, err := mcp.CallTool(t.Context(), &sdk.CallToolParams{Name: "tool_fixture_echo", Arguments: map[string]any{"text": "a"}}); err == nil {
		t.Error("a revoked token still calls over its session")
	}
	h.Restart()
	turnedAway(newCaller(t, h.URL(), secret.Reveal()))
	if handler.Runs("a") != 0 || handler.Runs("before") != 2 {
		t.Errorf("ran %d and %d times", handler.Runs("a"), handler.Runs("before"))
	}
}

func TestBodyTooLarge(t *testing.T) {
	h, handler, _ := one(t)
	c := h.client(principal.RoleAgent)
	large := strings.Repeat("x", 1<<20)
	c.fails(http.MethodPost, "/v1/calls", callBody(site.ToolEcho, text(large), ""), capabilities.CodeBodyTooLarge)
	status, answer := c.do(http.MethodPost, "/mcp", fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_fixture_echo","arguments":%s}}`, text(large)))
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("MCP: %d %.200s", status, answer)
	}
	// The limit is the body's, not the connection's: the next call goes through.
	if r, err := c.call(ctx(), site.ToolEcho, text("next"), ""); err != nil || r.Status != capabilities.StatusOK {
		t.Errorf("%+v, %v", r, err)
	}
	if handler.Runs(large) != 0 {
		t.Error("it ran")
	}
}

// session opens an MCP session.
func (h *house) session(token string) *sdk.ClientSession { return h.sessionOf(token, nil) }

func (h *house) sessionOf(token string, o *sdk.ClientSessionOptions) *sdk.ClientSession {
	h.t.Helper()
	c := newCaller(h.t, h.URL(), token)
	mcp, err := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, nil).Connect(ctx(), &sdk.StreamableClientTransport{
		Endpoint: h.URL() + "/mcp", MaxRetries: -1, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: bearer{c}},
	}, o)
	must(h.t, err)
	h.t.Cleanup(func() { _ = mcp.Close() })
	return mcp
}

type bearer struct{ c *caller }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.c.token)
	return b.c.http.Transport.RoundTrip(r)
}

// mcpCall calls over MCP and returns the error's code and details, "" for none.
func mcpCall(t *testing.T, s *sdk.ClientSession, tool capabilities.ToolID, args string) (capabilities.Code, any) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: strings.ReplaceAll(string(tool), ".", "_"), Arguments: json.RawMessage(args)})
	must(t, err)
	if !r.IsError {
		return "", nil
	}
	data, err := json.Marshal(r.StructuredContent)
	must(t, err)
	var form struct {
		Error struct {
			Code    capabilities.Code
			Details any
		}
	}
	must(t, json.Unmarshal(data, &form))
	return form.Error.Code, form.Error.Details
}
