package mcp_test

import (
	"context"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/principal"
)

const toolSearch = capabilities.ToolID("tool.catalog.search")

// finding has a search find tools, as the gateway's own does.
func finding(t testing.TB, f *fronttest.Front, tools ...capabilities.ToolID) {
	t.Helper()
	f.Dispatcher.Do(toolSearch, func(ctx context.Context, r dispatch.Request) capabilities.Result {
		if err := f.Lanes.Find(ctx, r.Lane, tools); err != nil {
			t.Error(err)
		}
		return fronttest.OK(`{"tools":[{"about":"Opens an address.","title":"Open an address","tool_id":"tool.browser.navigate"}]}`)
	})
}

func listedNames(t testing.TB, s *sdk.ClientSession) []string {
	t.Helper()
	var all []string
	for name := range names(t, s) {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// The whole answer to tools/list with which a model begins is at most 2 KB, whatever there is.
func TestFaceIsSmall(t *testing.T) {
	f := start(t)
	showAll(t, f)
	token := f.Token("alice", principal.RoleAgent)
	for _, path := range []string{"/mcp?face=search", "/mcp?face=search&schemas=input"} {
		body := rawList(t, f, token, path)
		t.Logf("%s: %d bytes", path, len(body))
		if len(body) > 2<<10 {
			t.Errorf("%s answers with %d bytes", path, len(body))
		}
	}
	s := connect(t, f, token, "/mcp?face=search", "2025-11-25", nil)
	if got := listedNames(t, s); !slices.Equal(got, []string{"tool_catalog_search"}) {
		t.Errorf("the list begins with %v", got)
	}
	// A list of everything has no use for it.
	all := listedNames(t, connect(t, f, token, "/mcp", "2025-11-25", nil))
	if slices.Contains(all, "tool_catalog_search") || !slices.Contains(all, "tool_browser_click") {
		t.Errorf("the whole list is %v", all)
	}
}

// S0-05: what a search found stands in the lane's list under its own name with its own schema, in
// every revision, for every connection of the lane, and in no other lane. Clients are told.
func TestFoundToolsJoinTheList(t *testing.T) {
	eachRevision(t, func(t *testing.T, revision string) {
		f := start(t)
		showAll(t, f)
		finding(t, f, fronttest.ToolNavigate, "tool.fs.read")
		_, secret, err := f.Tokens.Create(t.Context(), principal.Site, principal.Spec{Principal: "alice", Role: principal.RoleAgent, Face: principal.FaceSearch})
		if err != nil {
			t.Fatal(err)
		}
		token := secret.Reveal()
		s := connect(t, f, token, "/mcp", revision, nil)
		if got := listedNames(t, s); !slices.Equal(got, []string{"tool_catalog_search"}) {
			t.Fatalf("the token's list begins with %v", got)
		}
		if res := call(t, s, "tool_catalog_search", map[string]any{"words": "open a page"}); res.IsError {
			t.Fatal(text(res))
		}
		want := []string{"tool_browser_navigate", "tool_catalog_search", "tool_fs_read"}
		tools := names(t, s)
		if got := listedNames(t, s); !slices.Equal(got, want) {
			t.Fatalf("after the search: %v", got)
		}
		whole := names(t, connect(t, f, token, "/mcp?face=all", revision, nil))
		if len(whole) < 20 || whole["tool_catalog_search"] != nil {
			t.Errorf("face=all lists %d tools", len(whole))
		}
		for _, name := range want[:1] { // the very same tool, not a generic one
			if a, b := tools[name], whole[name]; a.Description != b.Description || a.InputSchema == nil {
				t.Errorf("%s: %+v, %+v", name, a, b)
			}
		}
		if got := listedNames(t, connect(t, f, token, "/mcp", revision, nil)); !slices.Equal(got, want) {
			t.Errorf("after a reconnect: %v", got)
		}
		if got := listedNames(t, connect(t, f, token, "/mcp/l/other", revision, nil)); !slices.Equal(got, want[1:2]) {
			t.Errorf("another lane: %v", got)
		}
		// Pinned tools and families are there from the beginning.
		pinned := listedNames(t, connect(t, f, token, "/mcp/l/pinned?tools=location,tool.fs.write", revision, nil))
		if !slices.Equal(pinned, []string{"tool_catalog_search", "tool_fs_write", "tool_location_get"}) {
			t.Errorf("pinned: %v", pinned)
		}
		// A tool that policy no longer lets through is gone, found or not.
		f.Dispatcher.Show(toolSearch, fronttest.ToolNavigate)
		if got := listedNames(t, connect(t, f, token, "/mcp/l/late", revision, nil)); !slices.Equal(got, want[1:2]) {
			t.Errorf("a new lane: %v", got)
		}
	})
}

// list_changed follows a search.
func TestSearchesAreTold(t *testing.T) {
	eachRevision(t, func(t *testing.T, revision string) {
		f := start(t)
		all := showAll(t, f)
		changed := make(chan struct{}, 64)
		s := connect(t, f, f.Token("alice", principal.RoleAgent), "/mcp?face=search", revision, &sdk.ClientOptions{
			ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
		})
		// A client opens its stream for notifications in its own time, so search until it was told.
		for i := 0; ; i++ {
			finding(t, f, all[i%len(all)].Tool)
			call(t, s, "tool_catalog_search", map[string]any{"words": "anything"})
			select {
			case <-changed:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

// A search and what follows it stand in testdata/sessions, too.
func TestSearchIsAsWritten(t *testing.T) {
	eachRevision(t, func(t *testing.T, revision string) {
		f := start(t)
		showAll(t, f)
		finding(t, f, fronttest.ToolNavigate)
		first, request := opening(revision)
		isAsWritten(t, f, f.Token("alice", principal.RoleAgent), "/mcp?face=search", revision, revision+"-search", append(first,
			request(2, "list the tools", "tools/list", "", ""),
			request(3, "search", "tools/call", "tool_catalog_search", `{"words":"open a web page"}`),
			request(4, "list the tools again", "tools/list", "", ""),
		))
	})
}
