package rules_test

import (
	"fmt"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/store"
)

const deny = `forbid (principal, action == Action::"tool.desktop.act", resource);`

// A staged set decides nothing, survives a restart under its hash, and comes into force by an
// activation like every other set; the folder has no part in it.
func TestStage(t *testing.T) {
	f := newFixture(t)
	b, ctx := f.open(rules.FilesStaged), t.Context()
	before := b.Engine().SnapshotID()
	next, err := b.Stage(ctx, rules.Edit{By: "ann", Files: []policy.Source{{Name: "mine.cedar", Data: []byte(deny)}}})
	must(t, err)
	if b.Engine().SnapshotID() != before || next.SnapshotID() == before || len(f.seen) != 1 {
		t.Fatal("staging put it in force")
	}
	drafts, err := b.Drafts(ctx)
	if err != nil || len(drafts) != 1 || drafts[0].Snapshot != next.SnapshotID() || drafts[0].Base != before || drafts[0].By != "ann" {
		t.Fatalf("%+v %v", drafts, err)
	}
	b = f.open(rules.FilesTaken) // even taking the folder's files takes none of it
	if b.Engine().SnapshotID() != before {
		t.Fatal("a restart put it in force")
	}
	kept, err := b.Load(ctx, next.SnapshotID())
	must(t, err)
	if d := rules.Diff(b.Engine().Sources(), kept.Sources()); len(d) != 3 || d[0] != "--- mine.cedar" || d[2] != "+ "+deny {
		t.Errorf("%q", d)
	}
	if _, err := f.activate(b, func(r *rules.Request) { r.To = next.SnapshotID() }); err != nil {
		t.Fatal(err)
	}
	if b.Engine().SnapshotID() != next.SnapshotID() {
		t.Error("it is not in force")
	}
	if drafts, err := b.Drafts(ctx); err != nil || len(drafts) != 0 {
		t.Errorf("what is in force is staged still: %+v %v", drafts, err)
	}
	less, err := b.Stage(ctx, rules.Edit{By: "ann", Remove: []string{"mine.cedar"}})
	if err != nil || less.SnapshotID() != before {
		t.Errorf("taking the file out is not what was: %v", err)
	}
	if _, err := f.activate(b, func(r *rules.Request) { r.To = before }); err != nil {
		t.Fatal(err)
	}
	if drafts, err := b.Drafts(ctx); err != nil || len(drafts) != 0 { // it was in force, and the history has it
		t.Errorf("what was in force is a draft again: %+v %v", drafts, err)
	}
	if _, err := b.Load(ctx, next.SnapshotID()); err != nil {
		t.Error(err)
	}
}

func TestStageRefuses(t *testing.T) {
	f := newFixture(t)
	refused := false
	b, err := rules.Open(t.Context(), rules.Options{Dir: f.dir, Tools: f.cat, Store: f.db, Staged: func(*store.Tx, rules.Draft) error {
		if refused {
			return capabilities.Errorf(capabilities.CodeLedgerUnavailable, "full")
		}
		return nil
	}})
	must(t, err)
	good := []policy.Source{{Name: "mine.cedar", Data: []byte(deny)}}
	for name, e := range map[string]rules.Edit{
		"no cedar":       {Files: []policy.Source{{Name: "x.cedar", Data: []byte("permit (")}}},
		"a path":         {Files: []policy.Source{{Name: "../x.cedar", Data: []byte(deny)}}},
		"another ending": {Files: []policy.Source{{Name: "x.txt", Data: []byte(deny)}}},
		"no name":        {Files: []policy.Source{{Name: ".cedar", Data: []byte(deny)}}},
		"too large":      {Files: []policy.Source{{Name: "x.cedar", Data: make([]byte, policy.MaxSourceBytes+1)}}},
		"no such file":   {Remove: []string{"nothing.cedar"}},
		"no such base":   {Base: "xyz", Files: good},
	} {
		if _, err := b.Stage(t.Context(), e); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused = true
	if _, err := b.Stage(t.Context(), rules.Edit{Files: good}); err == nil {
		t.Error("staged without its record")
	}
	if drafts, err := b.Drafts(t.Context()); err != nil || len(drafts) != 0 {
		t.Errorf("%+v %v", drafts, err)
	}
	refused = false
	for i := range 40 { // the oldest make room
		_, err := b.Stage(t.Context(), rules.Edit{Files: []policy.Source{{Name: "mine.cedar", Data: fmt.Appendf(nil, "// %d\n%s", i, deny)}}})
		must(t, err)
	}
	if drafts, err := b.Drafts(t.Context()); err != nil || len(drafts) != 32 || drafts[0].N != 40 {
		t.Errorf("%d drafts are kept, %v", len(drafts), err)
	}
}
