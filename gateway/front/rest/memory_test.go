package rest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/knowledge"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Everybody has a memory of their own; an admin may read, change and end another's, nobody else.
func TestMemoryIsOnesOwn(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Migrations: knowledge.Migrations(), ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	facts, err := knowledge.New(knowledge.Options{Store: db})
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, func(o *rest.Options) { o.Memory = facts })
	bob := a.Token("bob", "agent")
	var kept api.Fact
	a.ok(a.agent, "POST", "/v1/memory", `{"subject":"my editor","attribute":"is","text":"my editor is Helix","source":"the person"}`, &kept)
	if kept.ID == "" || kept.Principal != "alice" || kept.Sensitivity != "low" || kept.Confidence != 1 {
		t.Fatalf("%+v", kept)
	}
	one := "/v1/memory/" + kept.ID
	for token, want := range map[string]int{a.agent: 1, bob: 0, a.admin: 0} {
		for _, at := range []string{"/v1/memory", "/v1/memory?q=editor"} {
			var list api.FactList
			if a.ok(token, "GET", at, "", &list); len(list.Facts) != want {
				t.Errorf("%s: %+v", at, list)
			}
		}
	}
	for _, token := range []string{bob, a.operator} {
		a.fails(token, "GET", "/v1/memory?principal=alice", "", capabilities.CodeForbidden)
		a.fails(token, "DELETE", one+"?principal=alice", "", capabilities.CodeForbidden)
		a.fails(token, "PATCH", one+"?principal=alice", `{"text":"x"}`, capabilities.CodeForbidden)
		a.fails(token, "DELETE", one, "", capabilities.CodeNotFound)
	}
	a.fails(a.agent, "POST", "/v1/memory", `{"subject":"a","attribute":"b","text":"I am allergic to nuts","source":"x","sensitivity":"low"}`, capabilities.CodeAcknowledgementRequired)
	a.fails(a.agent, "POST", "/v1/memory", `{"subject":"a","attribute":"b","text":"my password is hunter2","source":"x","agreed":true}`, capabilities.CodeForbidden)
	a.fails(a.agent, "POST", "/v1/memory", `{"subject":"a","attribute":"b","text":"`+strings.Repeat("x", 5000)+`","source":"x","agreed":true}`, capabilities.CodeInvalidRequest)
	a.ok(a.admin, "PATCH", one+"?principal=alice", `{"text":"my editor is Vim"}`, &kept)
	if kept.Text != "my editor is Vim" {
		t.Errorf("%+v", kept)
	}
	a.ok(a.admin, "DELETE", one+"?principal=alice", "", nil)
	a.fails(a.agent, "GET", one, "", capabilities.CodeNotFound)
}
