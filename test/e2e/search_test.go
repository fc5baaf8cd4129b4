package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/test/site"
)

// A search finds what its caller may use and nothing else, is a call like any other, and what it
// found is called under its own ID. The selection is durable before it is shown (S4-21,
// S4-22); nothing that the same decision hides is found (S0-05).
func TestSearchForTools(t *testing.T) {
	search := `@id("search") permit (principal, action == Action::"tool.catalog.search", resource);`
	h := start(t, site.Options{Rules: search, Door: embeddedOnly})
	must(t, h.Registry.Register(registry.Tool{Descriptor: word(), Provider: plug{}}))
	_, secret, err := h.Tokens.Create(ctx(), principal.Site, principal.Spec{Principal: "agent", Role: principal.RoleAgent, Face: principal.FaceSearch})
	must(t, err)
	token := secret.Reveal()
	told := make(chan struct{}, 64)
	mcp := h.listening(token, told)
	list := func() (names []string) {
		t.Helper()
		offered, err := mcp.ListTools(ctx(), nil)
		must(t, err)
		for _, tool := range offered.Tools {
			names = append(names, tool.Name)
		}
		slices.Sort(names)
		return names
	}
	find := func() (found []string) {
		t.Helper()
		res, err := mcp.CallTool(ctx(), &sdk.CallToolParams{Name: "tool_catalog_search", Arguments: map[string]any{"words": "answer with a word from the plug"}})
		must(t, err)
		var out struct {
			Tools []struct {
				ID string `json:"tool_id"`
			}
		}
		raw, err := json.Marshal(res.StructuredContent)
		must(t, err)
		must(t, json.Unmarshal(raw, &out))
		for _, tool := range out.Tools {
			found = append(found, tool.ID)
		}
		return found
	}
	if got := list(); !slices.Equal(got, []string{"tool_catalog_search"}) {
		t.Fatalf("the list begins with %v", got)
	}
	if found := find(); len(found) > 0 {
		t.Errorf("it found what nothing permits: %v", found)
	}
	h.rules(search + `
		@id("plug") permit (principal, action == Action::"tool.plug.word", resource);`)
	if found := find(); !slices.Equal(found, []string{string(toolWord)}) {
		t.Errorf("it found %v", found)
	}
	if got := list(); !slices.Equal(got, []string{"tool_catalog_search", toolWord.WireName()}) {
		t.Errorf("the list is %v", got)
	}
	want(t, h.by("agent", "agent", toolWord, text("hello"), ""), capabilities.StatusOK, "")

	packets, err := h.Ledger.Packets(ctx(), ledger.Query{Lane: "agent", Limit: 100})
	must(t, err)
	var kinds []string
	for _, p := range packets {
		kinds = append(kinds, string(p.Kind))
	}
	// Of the second search: the call, within it the selection, and then the call's result.
	for i, kind := range []string{"tool.call.request", "tool.call.decision", "tool.call.dispatch", "tool.select.request", "tool.select.result", "tool.call.result"} {
		at := slices.Index(kinds, kind)
		if at < 0 {
			t.Fatalf("%d: no %s after it in %v", i, kind, kinds)
		}
		kinds = kinds[at+1:]
	}
	// A rule that is taken back takes the tool out of the list, found or not.
	h.rules(search)
	if got := list(); len(got) == 2 {
		await(t, "the list_changed", told)
	}
	if found := find(); len(found) > 0 {
		t.Errorf("it still finds %v", found)
	}
	c := newCaller(t, h.URL(), token)
	var v struct {
		Valid      bool
		Violations []struct{ Path string }
	}
	h.rules(search + `permit (principal, action == Action::"tool.plug.word", resource);`)
	if c.ok(http.MethodPost, "/v1/tools/tool.plug.word/validate", `{"args":{"text":"hello"}}`, &v); !v.Valid {
		t.Errorf("%+v", v)
	}
	if c.ok(http.MethodPost, "/v1/tools/tool.plug.word/validate", `{"args":{"word":1}}`, &v); v.Valid || len(v.Violations) == 0 {
		t.Errorf("%+v", v)
	}
}
