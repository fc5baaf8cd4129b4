package admin_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/admin"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/store"
)

const tool = capabilities.ToolID("tool.admin.token-revoke")

type fixture struct {
	t    *testing.T
	path string
	db   *store.Store
	book *ledger.Ledger
	desk *admin.Desk
}

func start(t *testing.T, rules string) *fixture {
	t.Helper()
	f := &fixture{t: t, path: filepath.Join(t.TempDir(), "store.db")}
	cat, err := catalog.Embedded()
	must(t, err)
	engine, err := policy.Load([]policy.Source{{Name: "a.cedar", Data: []byte(rules)}}, cat)
	must(t, err)
	f.db, err = store.Open(t.Context(), store.Options{Path: f.path, Migrations: slices.Concat(ledger.Migrations, admin.Migrations()), ReserveBytes: -1})
	must(t, err)
	t.Cleanup(func() { _ = f.db.Close() })
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	f.book, err = ledger.Open(t.Context(), ledger.Options{Store: f.db, Chain: "g1", Key: key})
	must(t, err)
	f.desk, err = admin.New(admin.Options{Policy: func() *policy.Engine { return engine }, Tools: cat, Store: f.db, Ledger: f.book})
	must(t, err)
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// kinds are those of the tool's packets, in order.
func (f *fixture) kinds() string {
	f.t.Helper()
	all, err := f.book.Packets(f.t.Context(), ledger.Query{Tool: tool})
	must(f.t, err)
	var names []string
	for _, p := range all {
		names = append(names, strings.TrimPrefix(string(p.Kind), "tool.call."))
	}
	return strings.Join(names, " ")
}

func (f *fixture) do(work func(context.Context) error) error {
	return f.desk.Do(f.t.Context(), admin.Asked{Tool: tool, By: "ann", Role: "admin", Surface: "rest"}, map[string]json.RawMessage{"token": []byte(`"t1"`), "other": []byte(`"x"`)}, work)
}

// Nothing is done before it is recorded (S1-61): the work sees its own intent, and no end yet.
func TestRecordedBeforeItIsDone(t *testing.T) {
	f := start(t, "")
	seen := ""
	must(t, f.do(func(context.Context) error { seen = f.kinds(); return nil }))
	if seen != "request decision dispatch" || f.kinds() != "request decision dispatch result" {
		t.Errorf("the work saw %q, and after it there is %q", seen, f.kinds())
	}
	failure := errors.New("broken")
	if err := f.do(func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Error(err)
	}
	if !strings.HasSuffix(f.kinds(), "dispatch failed") {
		t.Error(f.kinds())
	}
}

// Work that cannot be recorded is not done, and work that policy forbids is recorded alone.
func TestNotDone(t *testing.T) {
	work := func(context.Context) error { t.Error("it was done"); return nil }
	for _, scope := range []string{`== Action::"tokens"`, `in Action::"tokens"`, `== Action::"tool.admin.token-revoke"`} { // an action stands for its parts
		f := start(t, `@id("no") forbid (principal, action `+scope+`, resource);`)
		if err := f.do(work); capabilities.CodeOf(err) != capabilities.CodeDeniedByPolicy || f.kinds() != "request decision failed" {
			t.Errorf("%s: %v, %s", scope, err, f.kinds())
		}
	}
	f := start(t, "")
	must(t, f.db.Close())
	if err := f.do(work); err == nil {
		t.Error("it is said to be done")
	}
}

// A call that a crash left open ends with the next start: nobody knows what became of it.
func TestRecover(t *testing.T) {
	f := start(t, "")
	must(t, f.do(func(ctx context.Context) error {
		must(t, f.desk.Recover(ctx)) // as the next process does
		return nil
	}))
	all, err := f.book.Packets(t.Context(), ledger.Query{Tool: tool})
	must(t, err)
	// The former process says of it later how it ended: that is no second end.
	if len(all) != 4 || all[3].Kind != ledger.KindCallFailed || !strings.Contains(string(all[3].Body), "unknown_outcome") {
		t.Errorf("%s", f.kinds())
	}
}

// A piece of work that panics has an end, too.
func TestPanic(t *testing.T) {
	f := start(t, "")
	func() {
		defer func() { _ = recover() }()
		_ = f.do(func(context.Context) error { panic("oh") })
	}()
	if f.kinds() != "request decision dispatch failed" {
		t.Error(f.kinds())
	}
}
