package rules_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/store"
)

type fixture struct {
	t    *testing.T
	dir  string
	cat  *catalog.Catalog
	db   *store.Store
	seen []rules.Activated
	not  []rules.Activated // what was refused
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	cat, err := catalog.Embedded()
	must(t, err)
	f := &fixture{t: t, dir: filepath.Join(t.TempDir(), "policy"), cat: cat}
	f.db, err = store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Migrations: rules.Migrations(), ReserveBytes: -1})
	must(t, err)
	t.Cleanup(func() { _ = f.db.Close() })
	return f
}

func (f *fixture) open(files rules.Files) *rules.Book {
	f.t.Helper()
	b, err := rules.Open(f.t.Context(), rules.Options{Dir: f.dir, Tools: f.cat, Store: f.db, Files: files, Record: func(_ *store.Tx, a rules.Activated) error {
		f.seen = append(f.seen, a)
		return nil
	}, Refused: func(_ *store.Tx, a rules.Activated) error {
		f.not = append(f.not, a)
		return nil
	}})
	must(f.t, err)
	return b
}

func (f *fixture) write(name, text string) {
	f.t.Helper()
	must(f.t, os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) activate(b *rules.Book, change func(*rules.Request)) (rules.Version, error) {
	f.t.Helper()
	r := rules.Request{By: "root", Role: "admin", Lane: "root", From: b.Engine().SnapshotID()}
	if staged, err := b.Load(f.t.Context(), rules.Staged); err == nil {
		r.To = staged.SnapshotID()
	}
	if change != nil {
		change(&r)
	}
	return b.Activate(f.t.Context(), r)
}

func want(t *testing.T, err error, code capabilities.Code) {
	t.Helper()
	if capabilities.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// Files are staged until somebody activates them, and what is in force survives
// whatever becomes of the folder.
func TestFilesAreStaged(t *testing.T) {
	f := newFixture(t)
	b := f.open(rules.FilesStaged)
	first := b.Engine().SnapshotID()
	if len(f.seen) != 1 || f.seen[0].Version.By != "site" || f.seen[0].Envelope == nil || f.seen[0].Grant == nil || f.seen[0].Grant.Via != "start" {
		t.Fatalf("%+v", f.seen)
	}
	changed := b.Changed()
	f.write("extra.cedar", `@id("all") permit (principal, action, resource);`)
	if b.Engine().SnapshotID() != first || f.open(rules.FilesStaged).Engine().SnapshotID() != first {
		t.Fatal("an edit came into force by itself")
	}
	v, err := f.activate(b, nil)
	must(t, err)
	select {
	case <-changed:
	default:
		t.Fatal("nobody was told")
	}
	if b.Engine().SnapshotID() != v.Snapshot || v.Snapshot == first || v.Before != first || v.By != "root" {
		t.Fatalf("%+v", v)
	}
	e := f.seen[1].Envelope
	if e == nil || e.Verify() != nil || e.Tool != policy.ActivationTool || e.Risk != policy.RiskCritical || e.Consent != catalog.ConsentCall || f.seen[1].Grant == nil || f.seen[1].Grant.Snapshot != first || e.Role != "admin" {
		t.Fatalf("%+v", f.seen[1])
	}
	f.write("extra.cedar", `permit (`)
	if f.open(rules.FilesStaged).Engine().SnapshotID() != v.Snapshot {
		t.Fatal("a broken file changed the policy in force")
	}
	_, err = f.activate(b, func(r *rules.Request) { r.To = "sha256:" + strings.Repeat("0", 64) })
	want(t, err, capabilities.CodeInvalidRequest)
	if b.Engine().SnapshotID() != v.Snapshot {
		t.Fatal("a broken file changed the policy in force")
	}
	// Back to the first one, by the beginning of its hash.
	old, err := b.Load(t.Context(), first[7:19])
	must(t, err)
	back, err := f.activate(b, func(r *rules.Request) { r.To = old.SnapshotID() })
	must(t, err)
	history, err := b.History(t.Context(), 0)
	must(t, err)
	if back.Snapshot != first || len(history) != 3 || history[0].Snapshot != first || history[2].Snapshot != first {
		t.Fatalf("%+v", history)
	}
	f.write("extra.cedar", ``)
	if taken := f.open(rules.FilesTaken).Engine().SnapshotID(); taken == first {
		t.Fatal("the owner's files were not taken")
	}
}

// At one's own machine files that changed come into force at the next start, and an
// activation outlasts a start for which nobody touched them.
func TestFilesAreTakenWhenTheyChanged(t *testing.T) {
	f := newFixture(t)
	first := f.open(rules.FilesChanged).Engine().SnapshotID()
	f.write("extra.cedar", `@id("all") permit (principal, action, resource);`)
	b := f.open(rules.FilesChanged)
	edited := b.Engine().SnapshotID()
	if edited == first {
		t.Fatal("a new file was not taken")
	}
	_, err := f.activate(b, func(r *rules.Request) { r.To = first })
	must(t, err)
	if f.open(rules.FilesChanged).Engine().SnapshotID() != first {
		t.Error("the folder, which nobody touched since, undid an activation")
	}
	must(t, os.Remove(filepath.Join(f.dir, "extra.cedar")))
	f.open(rules.FilesChanged)
	f.write("extra.cedar", `@id("all") permit (principal, action, resource);`)
	if f.open(rules.FilesChanged).Engine().SnapshotID() != edited {
		t.Error("a file that came back was not taken")
	}
}

// An activation that is not exactly what a person looked at, or that the policy in
// force forbids, changes nothing.
func TestActivationIsPrivileged(t *testing.T) {
	f := newFixture(t)
	b := f.open(rules.FilesStaged)
	f.write("lock.cedar", `@id("two") forbid (principal, action == Action::"policy.activate", resource) unless { principal == User::"root" };`)
	for name, c := range map[string]struct {
		change func(*rules.Request)
		code   capabilities.Code
	}{
		"an agent":       {func(r *rules.Request) { r.Role = "agent" }, capabilities.CodeForbidden},
		"no role":        {func(r *rules.Request) { r.Role = "" }, capabilities.CodeForbidden},
		"another before": {func(r *rules.Request) { r.From = "sha256:x" }, capabilities.CodeConflict},
		"other files":    {func(r *rules.Request) { r.To = "sha256:" + strings.Repeat("0", 64) }, capabilities.CodeConflict},
		"the same":       {func(r *rules.Request) { r.To = r.From }, capabilities.CodeConflict},
		"a long reason":  {func(r *rules.Request) { r.Reason = strings.Repeat("x", 501) }, capabilities.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.activate(b, c.change)
			want(t, err, c.code)
		})
	}
	before := b.Engine().SnapshotID()
	_, err := f.activate(b, nil)
	must(t, err)
	f.write("more.cedar", `@id("x") permit (principal, action, resource);`)
	_, err = f.activate(b, func(r *rules.Request) { r.By = "eve" })
	want(t, err, capabilities.CodeDeniedByPolicy)
	if len(f.seen) != 2 || b.Engine().SnapshotID() == before {
		t.Fatal("a refused activation left something behind")
	}
	if len(f.not) != 1 || f.not[0].Version.By != "eve" || f.not[0].Envelope == nil || f.not[0].Decision.Effect != policy.Deny || f.not[0].Grant != nil {
		t.Errorf("the refusal is recorded as %+v", f.not)
	}
	_, err = f.activate(b, nil)
	must(t, err)
}

// A set under which nobody could activate another, or look at it before, is refused, at a start,
// too; one that leaves somebody able is not.
func TestNobodyIsLockedOut(t *testing.T) {
	f := newFixture(t)
	open := func(files rules.Files) (*rules.Book, error) {
		return rules.Open(t.Context(), rules.Options{Dir: f.dir, Tools: f.cat, Store: f.db, Files: files, Persons: func() []policy.Request {
			return []policy.Request{{Principal: "root", User: true, Role: "admin", Lane: "root"}, {Principal: "op", User: true, Role: "operator", Lane: "op"}}
		}})
	}
	b, err := open(rules.FilesStaged)
	must(t, err)
	first := b.Engine().SnapshotID()
	for name, text := range map[string]string{
		"nobody":       `forbid (principal, action == Action::"policy.activate", resource);`,
		"somebody new": `forbid (principal, action == Action::"tool.policy.activate", resource) unless { principal == User::"ann" };`,
		"none to look": `forbid (principal in Role::"admin", action == Action::"policy.read", resource);`,
	} {
		f.write("lock.cedar", text)
		if _, err := f.activate(b, nil); capabilities.CodeOf(err) != capabilities.CodePolicyLocksOut || b.Engine().SnapshotID() != first {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := open(rules.FilesTaken); capabilities.CodeOf(err) != capabilities.CodePolicyLocksOut {
			t.Errorf("%s at a start: %v", name, err)
		}
	}
	f.write("lock.cedar", `forbid (principal, action == Action::"policy.activate", resource) unless { principal == User::"root" };`)
	_, err = f.activate(b, nil)
	must(t, err)
	// Somebody else may be the one.
	f.write("lock.cedar", `forbid (principal == User::"root", action == Action::"policy.activate", resource);
		permit (principal == User::"op", action in [Action::"policy.activate", Action::"policy.read"], resource);`)
	_, err = f.activate(b, nil)
	must(t, err)
}

// recording is a ledger of a few packets.
type recording []ledger.Packet

func (r recording) Packets(_ context.Context, q ledger.Query) (out []ledger.Packet, _ error) {
	for _, p := range r {
		if p.Seq > q.After && len(out) < q.Limit && (q.Before == 0 || p.Seq < q.Before) && strings.HasPrefix(string(p.Kind), string(q.Kind)) {
			out = append(out, p)
		}
	}
	return out, nil
}

func (r *recording) call(tool capabilities.ToolID, node capabilities.NodeID, evidence, decision map[string]any) {
	for kind, body := range []map[string]any{{"evidence": evidence}, decision} {
		text, _ := json.Marshal(body)
		k := []ledger.Kind{ledger.KindCallRequest, ledger.KindCallDecision}[kind]
		n := uint64(len(*r) + 1)
		*r = append(*r, ledger.Packet{
			Seq: n, TimeUS: time.Now().UnixMicro(), Kind: k, Call: capabilities.CallID("c" + string(rune('a'+(n-1)/2))), Tool: tool, Principal: "alice", Lane: "alice", Node: node, Body: text,
		})
	}
}

func TestReplay(t *testing.T) {
	cat, err := catalog.Embedded()
	must(t, err)
	load := func(text string) *policy.Engine {
		e, err := policy.Load([]policy.Source{{Name: "a.cedar", Data: []byte(text)}}, cat)
		must(t, err)
		return e
	}
	var r recording
	nav, shot := capabilities.ToolID("tool.browser.navigate"), capabilities.ToolID("tool.desktop.screenshot")
	allowed := map[string]any{"effect": "allow", "role": "agent", "isolation_given": "t2"}
	r.call(nav, "n1", map[string]any{"url": "https://a.example/"}, allowed)
	r.call(nav, "n1", map[string]any{"url": "https://b.example/"}, allowed)
	r.call(nav, "n1", map[string]any{"url": "https://c.example/…"}, allowed)
	r.call(shot, "n1", nil, map[string]any{"effect": "allow", "grant": "g-1", "role": "agent", "isolation_given": "session"})
	r.call(shot, "", nil, map[string]any{"effect": "deny", "code": "denied_by_policy", "role": "agent"})
	r.call(shot, "", nil, map[string]any{"effect": "deny", "code": "node_not_ready", "role": "agent"})
	r.call("tool.gone.away", "n1", nil, allowed)

	same, err := rules.Run(t.Context(), load(string(policy.DefaultSource())), nil, cat, r, 0)
	must(t, err)
	// The denied one was asked about under the default policy.
	if same.Calls != 5 || same.Same != 4 || same.Looser != 1 || same.Stricter != 0 || same.Skipped != 2 || same.Through != uint64(len(r)) {
		t.Fatalf("%+v", same)
	}
	got, err := rules.Run(t.Context(), load(`@id("p") permit (principal, action, resource);
		@id("no") forbid (principal, action == Action::"tool.browser.navigate", resource) when { context.args.host == "b.example" };`), nil, cat, r, 0)
	must(t, err)
	if got.Stricter != 1 || got.Changes[0].Policies[0] != "no" || got.Changes[0].Was != policy.Allow || got.Changes[0].Would != policy.Deny || got.Unsure != 0 {
		t.Fatalf("%+v", got)
	}
	if tail, err := rules.Run(t.Context(), load(``), nil, cat, r, 6); err != nil || tail.Calls != 2 || tail.Stricter != 1 {
		t.Fatalf("%+v %v", tail, err)
	}
}

// A call that the policy in force decides as the other one would is told apart from what the change
// itself does (S1-56).
func TestReplayBesideThePolicyInForce(t *testing.T) {
	cat, err := catalog.Embedded()
	must(t, err)
	load := func(text string) *policy.Engine {
		e, err := policy.Load([]policy.Source{{Name: "a.cedar", Data: []byte(`@id("p") permit (principal, action, resource);` + text)}}, cat)
		must(t, err)
		return e
	}
	const noNavigate = `@id("n") forbid (principal, action == Action::"tool.browser.navigate", resource);`
	const noShot = `@id("s") forbid (principal, action == Action::"tool.browser.screenshot", resource);`
	var r recording
	allowed := map[string]any{"effect": "allow", "role": "agent", "isolation_given": "t2"}
	r.call("tool.browser.navigate", "n1", map[string]any{"url": "https://a.example/"}, allowed)
	r.call("tool.browser.screenshot", "n1", nil, allowed)
	got, err := rules.Run(t.Context(), load(noNavigate+noShot), load(noNavigate), cat, r, 0)
	must(t, err)
	if got.Stricter != 2 || got.Already != 1 || !got.Changes[0].Already || got.Changes[1].Already || got.Changes[1].Policies[0] != "s" {
		t.Fatalf("%+v", got)
	}
}

// A rule that bounds calls sees, in a replay, those that it lets through, and the recorded ones of
// the day before.
func TestReplayCountsCalls(t *testing.T) {
	cat, err := catalog.Embedded()
	must(t, err)
	engine, err := policy.Load([]policy.Source{{Name: "a.cedar", Data: []byte(`@id("p") permit (principal, action, resource);
@id("two") forbid (principal, action == Action::"tool.browser.navigate", resource) when { context.calls_last_hour >= 2 };`)}}, cat)
	must(t, err)
	nav := capabilities.ToolID("tool.browser.navigate")
	allowed := map[string]any{"effect": "allow", "role": "agent", "isolation_given": "t2"}
	var r recording
	for range 4 {
		r.call(nav, "n1", map[string]any{"url": "https://a.example/"}, allowed)
	}
	got, err := rules.Run(t.Context(), engine, engine, cat, r, 0)
	must(t, err)
	if got.Calls != 4 || got.Same != 2 || got.Stricter != 2 || got.Already != 2 || got.Changes[0].Policies[0] != "two" {
		t.Fatalf("%+v", got)
	}
	before := ledger.Packet{Seq: 1, TimeUS: time.Now().Add(-time.Minute).UnixMicro(), Kind: ledger.KindCallDispatch, Call: "c0", Tool: nav, Principal: "alice", Node: "n1"}
	old := before
	old.Seq, old.TimeUS = 2, time.Now().Add(-25*time.Hour).UnixMicro()
	r = recording{before, old}
	r.call(nav, "n1", map[string]any{"url": "https://a.example/"}, allowed)
	r.call(nav, "n1", map[string]any{"url": "https://a.example/"}, allowed)
	if got, err = rules.Run(t.Context(), engine, nil, cat, r, 2); err != nil || got.Calls != 2 || got.Same != 1 || got.Stricter != 1 {
		t.Fatalf("%+v (%v)", got, err)
	}
}

// toolset is tools as a list.
type toolset []*catalog.Descriptor

func (s toolset) All() []*catalog.Descriptor { return slices.Clone(s) }

// Other tools come without another set: the hash, the history and the grants that rest on
// it stay; rules may name the new tools from then on, and one that cannot judge them keeps
// them out.
func TestAdopt(t *testing.T) {
	f := newFixture(t)
	all := toolset(f.cat.All())
	click := slices.IndexFunc(all, func(d *catalog.Descriptor) bool { return d.Tool == "tool.browser.click" })
	without := slices.Delete(slices.Clone(all), click, click+1)
	b, err := rules.Open(t.Context(), rules.Options{Dir: f.dir, Tools: toolset{all[len(all)-1]}, Store: f.db})
	if err == nil {
		t.Fatalf("a policy that names tools that are not there loads: %v", b)
	}
	f.dir = filepath.Join(t.TempDir(), "policy")
	must(t, os.Mkdir(f.dir, 0o700))
	f.write("own.cedar", `@id("all") permit (principal, action in Action::"family:browser", resource);`)
	b, err = rules.Open(t.Context(), rules.Options{Dir: f.dir, Tools: without, Store: f.db})
	must(t, err)
	before, changed := b.Engine(), b.Changed()
	f.write("click.cedar", `@id("click") forbid (principal, action == Action::"tool.browser.click", resource);`)
	if _, err := b.Load(t.Context(), rules.Staged); err == nil {
		t.Error("a rule names a tool that is not there")
	}
	must(t, b.Adopt(all))
	if b.Engine().SnapshotID() != before.SnapshotID() || b.Engine() == before || before.Profile("tool.browser.click") != nil || b.Engine().Profile("tool.browser.click") == nil {
		t.Error("the set in force is another, or does not know the tool")
	}
	select {
	case <-changed:
		t.Error("another set is said to be in force")
	default:
	}
	if history, err := b.History(t.Context(), 0); err != nil || len(history) != 1 {
		t.Errorf("%v %v", history, err)
	}
	_, err = f.activate(b, nil)
	must(t, err)
	now := b.Engine()
	want(t, b.Adopt(without), capabilities.CodeConflict)
	if b.Engine() != now {
		t.Error("something changed")
	}
}
