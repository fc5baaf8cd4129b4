package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// showAll lists exactly the embedded catalog's tools, and returns those of a whole list.
func showAll(t testing.TB, f *fronttest.Front) []*catalog.Descriptor {
	t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	var ids []capabilities.ToolID
	var all []*catalog.Descriptor
	for _, d := range cat.All() {
		if d.ModelFacing {
			ids = append(ids, d.Tool)
			if !d.Face && !d.OnRequest { // of small lists, and of those that ask for it
				all = append(all, d)
			}
		}
	}
	f.Dispatcher.Show(ids...)
	return all
}

// rawList returns the answer to tools/list as it is on the wire.
func rawList(t testing.TB, f *fronttest.Front, token, path string) []byte {
	t.Helper()
	req := rawRequest(t, f, token, path, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "tools/list")
	resp, err := f.Client(token).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v %.200s", resp.StatusCode, err, body)
	}
	return body
}

// Every agent pays for the list in every turn: at most 29 KB without result
// schemas and 44 KB with them, for all tools there are, in any revision, with
// all that comes around them.
func TestListIsSmall(t *testing.T) {
	f := start(t)
	all := showAll(t, f)
	token := f.Token("alice", principal.RoleAgent)
	for path, most := range map[string]int{"/mcp": 44 << 10, "/mcp?schemas=input": 29 << 10} {
		body := rawList(t, f, token, path)
		t.Logf("%s: %d bytes", path, len(body))
		if len(body) > most {
			t.Errorf("%s answers with %d bytes, at most %d", path, len(body), most)
		}
		eachRevision(t, func(t *testing.T, revision string) {
			list, err := connect(t, f, token, path, revision, nil).ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != len(all) {
				t.Fatalf("%v: %d tools of %d", err, len(list.Tools), len(all))
			}
			text, err := json.Marshal(list)
			if err != nil || len(text) > most {
				t.Errorf("%v, %d bytes", err, len(text))
			}
			for _, tool := range list.Tools {
				if (tool.OutputSchema == nil) != strings.HasSuffix(path, "=input") {
					t.Errorf("%s: the output schema is %v", tool.Name, tool.OutputSchema)
				}
			}
		})
	}
}

// A client understands of the annotations what the descriptor says, where the protocol defines a
// meaning.
func TestAnnotationsMeanTheDescriptors(t *testing.T) {
	f := start(t)
	all := showAll(t, f)
	s := connect(t, f, f.Token("alice", principal.RoleAgent), "/mcp", "2026-07-28", nil)
	list := names(t, s)
	told := func(hint *bool) bool { return hint == nil || *hint } // both are true if absent
	for _, d := range all {
		a := list[d.Tool.WireName()].Annotations
		if a == nil {
			a = &sdk.ToolAnnotations{}
		}
		if a.ReadOnlyHint != d.Annotations.ReadOnly || told(a.OpenWorldHint) != d.Annotations.OpenWorld {
			t.Errorf("%s: %+v, want %+v", d.Tool, a, d.Annotations)
		}
		if !a.ReadOnlyHint && (a.IdempotentHint != d.Annotations.Idempotent || told(a.DestructiveHint) != d.Annotations.Destructive) {
			t.Errorf("%s: %+v, want %+v", d.Tool, a, d.Annotations)
		}
	}
}

// The list has to do without some words, which the instructions say once.
func TestInstructionsSayWhatTheListDoesNot(t *testing.T) {
	f := start(t)
	s := connect(t, f, f.Token("alice", principal.RoleAgent), "/mcp", "2026-07-28", nil)
	text := s.InitializeResult().Instructions
	for _, want := range []string{"node_id", "timeout_ms (1 to 600000)", "snapshot", "refs", "tool.browser.click is tool_browser_click"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if len(text) > 1500 {
		t.Errorf("%d bytes", len(text))
	}
}

// Without structured content no tool promises any: clients refuse a result that lacks what its
// schema promises.
func TestPlainLists(t *testing.T) {
	f := start(t)
	showAll(t, f)
	token := f.Token("alice", principal.RoleAgent)
	if body := string(rawList(t, f, token, "/mcp?structured=0")); strings.Contains(body, "outputSchema") || !strings.Contains(body, "inputSchema") {
		t.Errorf("output schemas without structured content: %.200s", body)
	}
	if body := string(rawList(t, f, token, "/mcp?structured=1")); !strings.Contains(body, "outputSchema") {
		t.Errorf("no output schemas with structured content: %.200s", body)
	}
	f.Dispatcher.Show(fronttest.ToolText)
	f.Dispatcher.Do(fronttest.ToolText, func(context.Context, dispatch.Request) capabilities.Result {
		res := fronttest.OK(`{"text":"hello"}`)
		res.Effect, res.Evidence, res.Untrusted = capabilities.EffectConfirmed, "it said so", true
		return res
	})
	s := connect(t, f, token, "/mcp?structured=0", "2025-06-18", nil)
	if res := call(t, s, "test_simple_text", map[string]any{"text": "x"}); res.StructuredContent != nil || text(res) != "confirmed: it said so\nthird-party:\ntext: hello" {
		t.Errorf("%q, structured %v", text(res), res.StructuredContent)
	}
}
