package mcp_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// -args -update writes the transcripts anew.
var update = flag.Bool("update", false, "write testdata/sessions anew")

// message is what a client says, what it is about, and what its headers repeat.
type message struct{ name, body, method, tool string }

// asks makes requests of a revision.
type asks func(id int, name, method, tool, args string) message

// opening is how a client of a revision begins, and how it asks from then on.
func opening(revision string) ([]message, asks) {
	meta, first := "", []message{
		{"initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":{},"clientInfo":{"name":"transcript","version":"1"}}}`, "", ""},
		{"initialized", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", ""},
	}
	if revision >= "2026" { // without sessions, each request says who speaks
		first = nil
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientInfo":{"name":"transcript","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	}
	return first, func(id int, name, method, tool, args string) message {
		params := ""
		if tool != "" {
			params = fmt.Sprintf(`"name":%q,"arguments":%s`, tool, args)
		}
		return message{name, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, strings.TrimPrefix(params+meta, ",")), method, tool}
	}
}

// said is a short conversation: what a client of any revision needs.
func said(revision string) []message {
	first, request := opening(revision)
	return append(first,
		request(2, "list the tools", "tools/list", "", ""),
		request(3, "call a tool", "tools/call", "test_simple_text", `{}`),
		request(4, "call a tool with wrong arguments", "tools/call", "test_simple_text", `{"nosuch":1}`),
		request(5, "call a tool that is not there", "tools/call", "test_nosuch", `{}`),
		request(6, "call a method that is not there", "nosuch/method", "", ""),
	)
}

var (
	dataLine = regexp.MustCompile(`(?m)^data: ?(\{.*\})\r?$`)
	drawnIDs = regexp.MustCompile(`"(call_id|request_id|trace_id|thread_id)": "[^"]+"`)
	moments  = regexp.MustCompile(`"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"`)
	spans    = regexp.MustCompile(`"(\w+_(?:ms|us))": [0-9.]+`)
)

// told is an answer as the transcript has it: its JSON indented, and what differs from
// run to run named instead.
func told(t *testing.T, body []byte) string {
	t.Helper()
	if m := dataLine.FindSubmatch(body); m != nil {
		body = m[1]
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return ""
	}
	var answer map[string]any
	if err := json.Unmarshal(body, &answer); err != nil {
		return string(body)
	}
	if result, ok := answer["result"].(map[string]any); ok {
		if tools, ok := result["tools"].([]any); ok { // one of them says how they look
			result["tools"] = []any{tools[0], fmt.Sprintf("and %d more", len(tools)-1)}
		}
	}
	text, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	out := drawnIDs.ReplaceAllString(string(text), `"$1": "DRAWN"`)
	out = moments.ReplaceAllString(out, `"TIME"`)
	return spans.ReplaceAllString(out, `"$1": 0`) + "\n"
}

// A whole session of each revision stands in testdata/sessions, message by message. A
// change of what goes over the wire shows there.
func TestSessionsAreAsWritten(t *testing.T) {
	eachRevision(t, func(t *testing.T, revision string) {
		f := start(t)
		isAsWritten(t, f, f.Token("alice", principal.RoleAgent), "/mcp", revision, revision, said(revision))
	})
}

// isAsWritten has a conversation and holds it against testdata/sessions.
func isAsWritten(t *testing.T, f *fronttest.Front, token, path, revision, name string, messages []message) {
	t.Helper()
	var got bytes.Buffer
	fmt.Fprintf(&got, "A session of MCP %s. Written by: go test ./gateway/front/mcp -run AsWritten -args -update\n\n", revision)
	session := ""
	for i, m := range messages {
		req := rawRequest(t, f, token, path, m.body)
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		if m.name != "initialize" {
			req.Header.Set("Mcp-Protocol-Version", revision)
		}
		if revision >= "2026" {
			req.Header.Set("Mcp-Method", m.method)
			if m.tool != "" {
				req.Header.Set("Mcp-Name", m.tool)
			}
		}
		resp, err := f.Client(token).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		var sent bytes.Buffer
		if err := json.Indent(&sent, []byte(m.body), "", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "-- %d client: %s --\n%s\n", i+1, m.name, &sent)
		fmt.Fprintf(&got, "-- %d gateway: %d %s --\n%s", i+1, resp.StatusCode, http.StatusText(resp.StatusCode), told(t, body))
	}
	file := filepath.Join("testdata", "sessions", name+".txtar")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s says otherwise; it now is\n%s", file, &got)
	}
}
