package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// statelessCall posts a call as a client of the revision without sessions does.
func (h *house) statelessCall(cx context.Context, token, text, id string) error {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_fixture_slow","arguments":{"text":%q},"_meta":{"dev.handrail/request_id":%q,`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, text, id)
	req, err := http.NewRequestWithContext(cx, http.MethodPost, h.URL()+"/mcp", strings.NewReader(body))
	if err != nil {
		return err
	}
	for k, v := range map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "tool_fixture_slow",
	} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// A caller who loses the connection has not cancelled: with a request ID the call goes on, and the
// same ID gets its result, by every surface.
func TestALostConnectionCancelsNothing(t *testing.T) {
	h, handler, _ := one(t)
	token := h.MustToken("agent", principal.RoleAgent)
	rest := newCaller(t, h.URL(), token)
	for name, call := range map[string]func(context.Context, string) error{
		"rest": func(c context.Context, id string) error {
			_, _, err := rest.try(c, http.MethodPost, "/v1/calls", callBody(site.ToolSlow, text(id), id))
			return err
		},
		"stateless": func(c context.Context, id string) error { return h.statelessCall(c, token, id, id) },
	} {
		c, leave := context.WithCancel(ctx())
		gone := make(chan error, 1)
		go func() { gone <- call(c, name) }()
		started(t, handler, name)
		leave()
		await(t, name+": the end of the connection", gone)
		retry := make(chan capabilities.Result, 1)
		go func() {
			r, err := rest.call(ctx(), site.ToolSlow, text(name), name)
			if err != nil {
				t.Error(err)
			}
			retry <- r
		}()
		handler.Finish(name)
		r := await(t, name+": the retry", retry)
		if want(t, r, capabilities.StatusOK, ""); handler.Runs(name) != 1 {
			t.Errorf("grave: %s: ran %d times", name, handler.Runs(name))
		}
		h.wantStory(r.Call, "request", "decision", "dispatch", "result")
	}
}

// A caller who cancels has cancelled, and one who lost the token, too, with a request ID as
// without.
func TestCancellingOnPurpose(t *testing.T) {
	h, handler := start(t, site.Options{}), &counted{Handler: site.NewHandler(), ended: make(chan struct{}, 10)}
	h.AddNode("one", handler)
	token := h.MustToken("agent", principal.RoleAgent)
	rest, stranger, admin := newCaller(t, h.URL(), token), newCaller(t, h.URL(), h.MustToken("stranger", principal.RoleAgent)), h.client(principal.RoleAdmin)
	begin := func(c context.Context, id string) <-chan error {
		gone := make(chan error, 1)
		go func() {
			_, _, err := rest.try(c, http.MethodPost, "/v1/calls", callBody(site.ToolSlow, text(id), id))
			gone <- err
		}()
		started(t, handler.Handler, id)
		return gone
	}
	told := func(id string) {
		t.Helper()
		await(t, id+": the handler's end", handler.ended)
		r, err := rest.call(ctx(), site.ToolSlow, text(id), id)
		must(t, err)
		want(t, r, capabilities.StatusError, capabilities.CodeCancelled)
		if !strings.Contains(r.Hint, "before repeating") || handler.Runs(id) != 1 {
			t.Errorf("grave: %s: %q %q, ran %d times", id, r.Message, r.Hint, handler.Runs(id))
		}
	}

	begin(ctx(), "deleted")
	stranger.fails(http.MethodDelete, "/v1/calls/request/deleted", "", capabilities.CodeNotFound)
	rest.ok(http.MethodDelete, "/v1/calls/request/deleted", "", nil)
	told("deleted")
	rest.fails(http.MethodDelete, "/v1/calls/request/deleted", "", capabilities.CodeNotFound)

	// By its own ID, which is told by the list of one's calls.
	begin(ctx(), "named")
	var list struct {
		Calls []struct {
			Call  capabilities.CallID `json:"call_id"`
			State string              `json:"state"`
		} `json:"calls"`
	}
	rest.ok(http.MethodGet, "/v1/calls?state=running", "", &list)
	if len(list.Calls) != 1 {
		t.Fatalf("running: %+v", list.Calls)
	}
	stranger.fails(http.MethodDelete, "/v1/calls/"+string(list.Calls[0].Call), "", capabilities.CodeNotFound)
	rest.ok(http.MethodDelete, "/v1/calls/"+string(list.Calls[0].Call), "", nil)
	told("named")

	// The connection first, and then the call.
	c, leave := context.WithCancel(ctx())
	gone := begin(c, "left")
	leave()
	await(t, "the end of the connection", gone)
	rest.ok(http.MethodDelete, "/v1/calls/request/left", "", nil)
	told("left")

	// MCP's own cancel, where it is more than a closed connection.
	mcp := h.sessionOf(token, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	c, cancel := context.WithCancel(ctx())
	ended := make(chan error, 1)
	go func() {
		_, err := mcp.CallTool(c, &sdk.CallToolParams{Meta: sdk.Meta{"dev.handrail/request_id": "mcp"}, Name: "tool_fixture_slow", Arguments: map[string]any{"text": "mcp"}})
		ended <- err
	}()
	started(t, handler.Handler, "mcp")
	cancel()
	await(t, "the call", ended)
	told("mcp")

	// Nobody waits any more, and the token goes.
	c, leave = context.WithCancel(ctx())
	gone = begin(c, "revoked")
	leave()
	await(t, "the end of the connection", gone)
	var tokens struct {
		Tokens []struct {
			ID        string                   `json:"token_id"`
			Principal capabilities.PrincipalID `json:"principal"`
		} `json:"tokens"`
	}
	admin.ok(http.MethodGet, "/v1/tokens", "", &tokens)
	for _, one := range tokens.Tokens {
		if one.Principal == "agent" {
			admin.ok(http.MethodDelete, "/v1/tokens/"+one.ID, "", nil)
		}
	}
	await(t, "the handler's end", handler.ended)
}
