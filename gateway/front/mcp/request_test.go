package mcp_test

import (
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// S0-10: the usual list has the browser's 22 tools and no more. Those that are listed on request
// stand where an address, a token or a lane asks for them, and can be called by name in every list
// that has their family.
func TestListedOnRequest(t *testing.T) {
	f := start(t)
	showAll(t, f)
	const on, other = "tool_browser_read", "tool_browser_click"
	token := f.Token("alice", principal.RoleAgent)
	for _, c := range []struct {
		path          string
		listed, usual bool // the tool on request; one of the usual ones
	}{
		{"/mcp", false, true},
		{"/mcp?tools=browser", false, true},
		{"/mcp?tools=tool.browser.read", true, false},
		{"/mcp?tools=browser,tool.browser.read", true, true},
		{"/mcp?tools=fs&also=tool.browser.read", true, false},
		{"/mcp?also=tool.browser.read", true, true},
		{"/mcp?also=browser", true, true},
		{"/mcp?face=whole", true, true},
		{"/mcp?face=whole&tools=browser", true, true},
		{"/mcp?face=whole&tools=fs", false, false},
		{"/mcp?face=search", false, false},
		{"/mcp?face=search&tools=browser", false, true},
		{"/mcp?face=search&also=browser", true, true},
	} {
		got := listedNames(t, connect(t, f, token, c.path, "2025-11-25", nil))
		if slices.Contains(got, on) != c.listed || slices.Contains(got, other) != c.usual {
			t.Errorf("%s lists %v", c.path, got)
		}
	}
	browser := 0
	for _, name := range listedNames(t, connect(t, f, token, "/mcp?tools=browser", "2025-11-25", nil)) {
		if name != "tool_catalog_search" {
			browser++
		}
	}
	if browser != 22 {
		t.Errorf("the browser's usual list has %d tools", browser)
	}
	_, secret, err := f.Tokens.Create(t.Context(), principal.Site, principal.Spec{Principal: "alice", Role: principal.RoleAgent, Face: principal.FaceWhole})
	if err != nil {
		t.Fatal(err)
	}
	if got := listedNames(t, connect(t, f, secret.Reveal(), "/mcp", "2025-11-25", nil)); !slices.Contains(got, on) || !slices.Contains(got, other) {
		t.Errorf("a token for the whole list is shown %v", got)
	}
	// Unlisted is not forbidden: the dispatcher decides.
	s := connect(t, f, token, "/mcp", "2025-11-25", nil)
	if res := call(t, s, on, map[string]any{}); res.IsError && text(res) == "" {
		t.Error(text(res))
	}
}

// A lane that found such a tool by searching has it in its list from then on.
func TestALaneFindsWhatIsListedOnRequest(t *testing.T) {
	f := start(t)
	showAll(t, f)
	finding(t, f, "tool.browser.read", fronttest.ToolNavigate)
	token := f.Token("alice", principal.RoleAgent)
	s := connect(t, f, token, "/mcp", "2025-11-25", nil)
	if slices.Contains(listedNames(t, s), "tool_browser_read") {
		t.Fatal("listed before it was found")
	}
	if res := call(t, s, "tool_catalog_search", map[string]any{"words": "read a page"}); res.IsError {
		t.Fatal(text(res))
	}
	got := listedNames(t, s)
	if !slices.Contains(got, "tool_browser_read") || !slices.Contains(got, "tool_browser_click") {
		t.Errorf("after the search: %v", got)
	}
	if got := listedNames(t, connect(t, f, token, "/mcp?tools=fs", "2025-11-25", nil)); slices.Contains(got, "tool_browser_read") {
		t.Errorf("a list of other families has it: %v", got)
	}
}
