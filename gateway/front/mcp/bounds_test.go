package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Clients that never say goodbye must not lock their token out or fill memory.
func TestSessionsAreBounded(t *testing.T) {
	f := bounded(t, 10, 10)
	token := f.Token("alice", principal.RoleAgent)
	first := rawInitialize(t, f, token, "/mcp")
	for i := range 10 {
		rawInitialize(t, f, token, fmt.Sprintf("/mcp/l/%d", i%5))
	}
	ping := `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	if status, _ := rawPost(t, f, token, "/mcp", ping, first); status != http.StatusNotFound {
		t.Errorf("the oldest of too many sessions gives %d", status)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A client that makes up lane after lane uses the room of those it left.
func TestViewsAreBounded(t *testing.T) {
	f := bounded(t, 10, 100)
	token := f.Token("alice", principal.RoleAgent)
	client := f.Client(token)
	for i := range 15 {
		req := rawRequest(t, f, token, fmt.Sprintf("/mcp/l/%d", i), `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/list")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "tool_node_list") {
			t.Fatalf("lane %d: %d %.200s", i, resp.StatusCode, body)
		}
	}
	// Those that live are not put out: beyond them, one more is refused.
	for i := range 10 {
		rawInitialize(t, f, token, fmt.Sprintf("/mcp/l/%d", i))
	}
	if status, body := rawPost(t, f, token, "/mcp/l/more", initialize, ""); status != http.StatusTooManyRequests {
		t.Errorf("one lane too many gives %d %s", status, body)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestBodyGate(t *testing.T) {
	f := start(t)
	token := f.Token("alice", principal.RoleAgent)
	big := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_simple_text","arguments":{"text":%q}}}`, strings.Repeat("x", front.MaxBody))
	session := rawInitialize(t, f, token, "/mcp")
	if status, _ := rawPost(t, f, token, "/mcp", big, session); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body gives %d", status)
	}
	req := rawRequest(t, f, token, "/mcp", big)
	req.ContentLength = -1 // chunked: the length is not told
	req.Header.Set("Mcp-Session-Id", session)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a large chunked body gives %d", resp.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

func rawRequest(t testing.TB, f *fronttest.Front, token, path, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, f.URL+path, io.MultiReader(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	return req
}

func rawPost(t testing.TB, f *fronttest.Front, token, path, body, session string) (int, string) {
	t.Helper()
	req := rawRequest(t, f, token, path, body)
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	answer, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer)
}

func rawInitialize(t testing.TB, f *fronttest.Front, token, path string) string {
	t.Helper()
	resp, err := http.DefaultClient.Do(rawRequest(t, f, token, path, initialize))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	id := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != http.StatusOK || id == "" || !strings.Contains(string(body), `"2025-11-25"`) {
		t.Fatalf("initialize: %d %s", resp.StatusCode, body)
	}
	if status, answer := rawPost(t, f, token, path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, id); status != http.StatusAccepted {
		t.Fatalf("initialized: %d %s", status, answer)
	}
	return id
}

// A call that says nothing before its end is answered by plain JSON.
func TestPlainAnswers(t *testing.T) {
	f := start(t)
	token := f.Token("alice", principal.RoleAgent)
	defer http.DefaultClient.CloseIdleConnections()
	req := rawRequest(t, f, token, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_simple_text","arguments":{}}}`)
	req.Header.Set("Mcp-Session-Id", rawInitialize(t, f, token, "/mcp"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v %s", resp.StatusCode, err, body)
	}
	text, kind := string(body), resp.Header.Get("Content-Type")
	if kind != "application/json" || !strings.HasPrefix(text, `{"jsonrpc":"2.0","id":2,"result":`) || !strings.HasSuffix(text, "}") {
		t.Errorf("%s %s", kind, text)
	}
}
