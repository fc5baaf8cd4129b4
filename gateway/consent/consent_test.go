package consent_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// room is a Consent over a real store, with a clock and a policy of the test's.
type room struct {
	*consent.Consent
	t        testing.TB
	db       *store.Store
	mu       sync.Mutex
	now      time.Time
	snapshot string
	records  []string
	valid    func(token string) bool // nil: every token is
}

// openAs is a room with a minute's patience, where these tokens are good.
func openAs(t testing.TB, valid func(token string) bool) *room {
	r := fresh(t, time.Minute)
	r.valid = valid
	return r
}

func (r *room) advance(d time.Duration) { r.mu.Lock(); r.now = r.now.Add(d); r.mu.Unlock() }

func open(t testing.TB, path string, wait time.Duration) *room {
	return openWith(t, path, wait, nil)
}

// openWith is open, where tools declare what manifest says.
func openWith(t testing.TB, path string, wait time.Duration, manifest func(string) string) *room {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: path, Migrations: consent.Migrations(), ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := &room{t: t, db: db, now: time.Now(), snapshot: "p1"}
	r.Consent, err = consent.New(consent.Options{
		Store: db, Wait: wait, Manifest: manifest, Valid: func(token string) bool { return r.valid == nil || r.valid(token) }, Input: func(tool string, _ capabilities.NodeID) bool { return strings.HasPrefix(tool, "tool.desktop.") },
		Snapshot: func() string { r.mu.Lock(); defer r.mu.Unlock(); return r.snapshot },
		Now:      func() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return r.now },
		Record: func(_ *store.Tx, kind string, by capabilities.PrincipalID, _ any) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.records = append(r.records, kind+" "+string(by))
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r
}

func fresh(t testing.TB, wait time.Duration) *room {
	return open(t, filepath.Join(t.TempDir(), "store.db"), wait)
}

func ask() consent.Ask {
	return consent.Ask{
		Call: "c1", Principal: "agent", Role: "agent", Tool: "tool.desktop.act", Title: "Act", Node: "n1", Lane: "l1", Args: []byte(`{"a":1}`),
		Evidence: map[string]any{"kind": "click\u202etxt"}, Risk: "high", Snapshot: "p1", Longest: consent.KindLease,
	}
}

// spend is what the dispatcher's commit does with a permit.
func (r *room) spend(p consent.Permit) error {
	return r.db.Write(context.Background(), func(tx *store.Tx) error { return r.SpendIn(tx, p) })
}

func is(err error, code capabilities.Code) bool {
	return errors.Is(err, &capabilities.Error{Code: code})
}

// waiting returns the one approval that waits.
func (r *room) waiting() consent.Approval {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if all := r.Approvals(); len(all) == 1 {
			return all[0]
		}
	}
	r.t.Fatal("nothing waits")
	return consent.Approval{}
}

type outcome struct {
	p   consent.Permit
	err error
}

func (r *room) await(a consent.Ask) <-chan outcome {
	c := make(chan outcome, 1)
	go func() { p, err := r.Await(context.Background(), a); c <- outcome{p, err} }()
	return c
}

func TestAllowOnceIsForExactlyThatCall(t *testing.T) {
	r := fresh(t, time.Minute)
	got := r.await(ask())
	w := r.waiting()
	if w.Arguments["kind"] != `click\u{202e}txt` || w.Longest != consent.KindLease {
		t.Errorf("%+v", w)
	}
	if _, err := r.Answer(t.Context(), w.ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	o := <-got
	if o.err != nil || o.p.Kind != consent.KindCall || r.spend(o.p) != nil {
		t.Fatalf("%+v", o)
	}
	// The identical call asks again.
	again := r.await(ask())
	w = r.waiting()
	if _, err := r.Answer(t.Context(), w.ID, consent.Answer{By: "anna", Reason: "no more"}); err != nil {
		t.Fatal(err)
	}
	if o := <-again; !is(o.err, capabilities.CodeConsentDenied) || !strings.Contains(o.err.Error(), "no more") {
		t.Errorf("%+v", o)
	}
	// So soon after a no, nobody is bothered with the same question.
	if o := <-r.await(ask()); !is(o.err, capabilities.CodeConsentDenied) || len(r.Approvals()) != 0 {
		t.Errorf("%+v", o)
	}
	if _, err := r.Answer(t.Context(), w.ID, consent.Answer{Allow: true, By: "ben"}); !is(err, capabilities.CodeConflict) {
		t.Errorf("a second answer counted: %v", err)
	}
	if want := "gateway.approval.asked agent|gateway.approval.answered anna|gateway.grant.made anna|gateway.approval.asked agent|gateway.approval.answered anna|gateway.approval.late ben"; strings.Join(r.records, "|") != want {
		t.Errorf("recorded %q", r.records)
	}
}

// A late approval waits for its call, and only for that one.
func TestLateApproval(t *testing.T) {
	r := fresh(t, time.Millisecond)
	o := <-r.await(ask())
	if !is(o.err, capabilities.CodeApprovalPending) {
		t.Fatalf("%+v", o)
	}
	if _, err := r.Answer(t.Context(), r.waiting().ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*consent.Ask){
		"principal": func(a *consent.Ask) { a.Principal = "other" }, "tool": func(a *consent.Ask) { a.Tool = "tool.desktop.mouse" },
		"node": func(a *consent.Ask) { a.Node = "n2" }, "lane": func(a *consent.Ask) { a.Lane = "l2" },
		"arguments": func(a *consent.Ask) { a.Args = []byte(`{"a":2}`) },
	} {
		a := ask()
		change(&a)
		if o := <-r.await(a); !is(o.err, capabilities.CodeApprovalPending) {
			t.Errorf("another %s: %+v", what, o)
		}
	}
	other := ask()
	other.Snapshot = "p2" // not the one in force: no yes would count, so nobody is asked
	if o := <-r.await(other); !is(o.err, capabilities.CodeConflict) {
		t.Errorf("another policy: %+v", o)
	}
	if o := <-r.await(ask()); o.err != nil {
		t.Errorf("%+v", o)
	}
	if o := <-r.await(ask()); o.err == nil {
		t.Error("once was good for twice")
	}
}

func TestSilenceDenies(t *testing.T) {
	r := fresh(t, time.Minute)
	got := r.await(ask())
	r.waiting()
	r.advance(11 * time.Minute)
	if len(r.Approvals()) != 0 {
		t.Error("it waits for ever")
	}
	if o := <-got; !is(o.err, capabilities.CodeConsentDenied) {
		t.Errorf("%+v", o)
	}
	nobody := fresh(t, -1)
	if o := <-nobody.await(ask()); !is(o.err, capabilities.CodeConsentUnavailable) {
		t.Errorf("%+v", o)
	}
}

// A lease is counted in the commits, whoever runs beside whom, and lasts over a
// restart.
func TestThousandSpendsOfFiveUses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	r := open(t, path, -1)
	g, err := r.Grant(t.Context(), consent.Spec{Principal: "agent", Tools: []string{"tool.desktop.*"}, Node: "n1", Lane: "l1", MaxUses: 5, Approver: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	var spent atomic.Int64
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			p, err := r.Await(context.Background(), ask())
			if err == nil && r.spend(p) == nil {
				spent.Add(1)
			}
		})
	}
	wg.Wait()
	if spent.Load() != 5 {
		t.Errorf("%d of 5 uses", spent.Load())
	}
	_ = r.db.Close()
	r = open(t, path, -1)
	if all := r.Grants(); len(all) != 0 {
		t.Errorf("used up, but live after a restart: %+v", all)
	}
	g, err = r.Grant(t.Context(), consent.Spec{Principal: "agent", Tools: []string{"tool.desktop.*"}, Node: "n1", AnyLane: true, Approver: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	_ = r.db.Close()
	r = open(t, path, -1)
	o := <-r.await(ask())
	if o.err != nil || o.p.Grant != g.ID {
		t.Fatalf("%+v", o)
	}
	if err := r.Revoke(t.Context(), g.ID, "anna"); err != nil {
		t.Fatal(err)
	}
	if err := r.spend(o.p); !is(err, capabilities.CodeConsentDenied) {
		t.Errorf("revoked between, and spent: %v", err)
	}
	if o := <-r.await(ask()); o.err == nil {
		t.Error("a revoked grant covers")
	}
}

// A permission lasts as long as its tool's class lets it: once, for an hour, for a session, and for
// good only what is safe (S2-34).
func TestWhatCanNotBeGranted(t *testing.T) {
	r := fresh(t, time.Millisecond)
	good := consent.Spec{Principal: "agent", Tools: []string{"tool.desktop.act"}, Node: "n1", Lane: "l1", Approver: "anna"}
	for what, change := range map[string]func(*consent.Spec){
		"no principal": func(s *consent.Spec) { s.Principal = "" }, "no node": func(s *consent.Spec) { s.Node = "" }, "no lane": func(s *consent.Spec) { s.Lane = "" },
		"two lanes": func(s *consent.Spec) { s.AnyLane = true }, "too long": func(s *consent.Spec) { s.For = 2 * time.Hour },
		"everything": func(s *consent.Spec) { s.Tools = []string{"*"} }, "all tools": func(s *consent.Spec) { s.Tools = []string{"tool.*"} },
		"half a family": func(s *consent.Spec) { s.Tools = []string{"tool.desk*"} }, "nothing": func(s *consent.Spec) { s.Tools = nil },
	} {
		s := good
		change(&s)
		if _, err := r.Grant(t.Context(), s); !is(err, capabilities.CodeInvalidRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for longest, c := range map[consent.Kind]struct {
		kinds []consent.Kind
		hint  string
	}{
		consent.KindSession: {[]consent.Kind{consent.KindAlways}, "Allow it once, for up to an hour, or until you revoke it."},
		consent.KindLease:   {[]consent.Kind{consent.KindSession, consent.KindAlways}, "Allow it once, or for up to an hour."},
		consent.KindCall:    {[]consent.Kind{consent.KindLease, consent.KindSession, consent.KindAlways}, "Allow it once."},
	} {
		a := ask()
		a.Longest, a.Args = longest, []byte(longest)
		<-r.await(a)
		all := r.Approvals()
		at := slices.IndexFunc(all, func(w consent.Approval) bool { return w.Longest == longest })
		if at < 0 {
			t.Fatalf("nothing waits that can be allowed as %s", longest)
		}
		for _, k := range c.kinds {
			_, err := r.Answer(t.Context(), all[at].ID, consent.Answer{Allow: true, Kind: k, By: "anna"})
			if !is(err, capabilities.CodeForbidden) || capabilities.AsError(err).Hint != c.hint {
				t.Errorf("%s of %s: %v, %+v", k, longest, err, capabilities.AsError(err))
			}
		}
	}
	w := r.Approvals()[0]
	r.mu.Lock()
	r.snapshot = "p2"
	r.mu.Unlock()
	if _, err := r.Answer(t.Context(), w.ID, consent.Answer{Allow: true, By: "anna"}); !is(err, capabilities.CodeConflict) {
		t.Errorf("an answer under another policy: %v", err)
	}
	r.Supersede()
	if all := r.Approvals(); len(all) != 0 {
		t.Errorf("asked under another policy, and open: %+v", all)
	}
	if now, err := r.Approval(w.ID); err != nil || now.State != consent.StateClosed || now.Closed != consent.ClosedPolicy {
		t.Errorf("%+v %v", now, err)
	}
}

// A lease for a family does not answer for those of its tools that a person is asked
// about at each call; one that names the tool does.
func TestFamilyLeaseLeavesOutWhatIsAskedEachTime(t *testing.T) {
	r := fresh(t, time.Millisecond)
	give := func(tool string) {
		t.Helper()
		if _, err := r.Grant(t.Context(), consent.Spec{Principal: "agent", Tools: []string{tool}, Node: "n1", Lane: "l1", Approver: "anna"}); err != nil {
			t.Fatal(err)
		}
	}
	a := ask()
	give("tool.desktop.*")
	if o := <-r.await(a); o.err != nil {
		t.Errorf("a tool of the family: %v", o.err)
	}
	a.Longest = consent.KindCall
	if o := <-r.await(a); !is(o.err, capabilities.CodeApprovalPending) {
		t.Errorf("a tool of the family that is asked about at each call: %+v %v", o.p, o.err)
	}
	give(string(a.Tool))
	if o := <-r.await(a); o.err != nil || o.p.Kind != consent.KindLease {
		t.Errorf("that tool by its name: %+v %v", o.p, o.err)
	}
}

// An agent cannot ask until somebody is tired.
func TestQuestionsAreBounded(t *testing.T) {
	r := fresh(t, time.Millisecond)
	refused := 0
	for i := range 40 {
		a := ask()
		a.Args = []byte{byte(i)}
		if o := <-r.await(a); is(o.err, capabilities.CodeOverloaded) {
			refused++
		}
	}
	if n := len(r.Approvals()); n != 8 || refused != 32 {
		t.Errorf("%d wait, %d refused", n, refused)
	}
}

// Another policy ends what was granted under the one before, on the disk, too; going
// back to that one brings nothing back.
func TestAnotherPolicyEndsGrants(t *testing.T) {
	r := fresh(t, time.Second)
	_, err := r.Grant(context.Background(), consent.Spec{Principal: "agent", Tools: []string{"tool.desktop.act"}, Node: "n1", Lane: "main", Approver: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	turn := func(snapshot string) {
		t.Helper()
		if err := r.db.Write(context.Background(), func(tx *store.Tx) error { return r.TurnIn(tx, snapshot, "anna") }); err != nil {
			t.Fatal(err)
		}
	}
	now := r.Grants()[0].Snapshot
	if turn(now); len(r.Grants()) != 1 {
		t.Error("the same policy ended it")
	}
	failed := r.db.Write(context.Background(), func(tx *store.Tx) error {
		if err := r.TurnIn(tx, "p2", "anna"); err != nil {
			return err
		}
		return errors.New("not in force after all")
	})
	if failed == nil || len(r.Grants()) != 1 {
		t.Error("a policy that did not come into force ended it")
	}
	turn("p2")
	turn(now)
	if len(r.Grants()) != 0 || !strings.HasSuffix(strings.Join(r.records, "|"), "gateway.grant.revoked anna") {
		t.Errorf("%v %v", r.Grants(), r.records)
	}
	if err := r.Load(context.Background()); err != nil || len(r.Grants()) != 0 {
		t.Errorf("it is back: %v %v", r.Grants(), err)
	}
}

func TestPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		out := consent.Plain(s)
		for _, r := range out {
			if r < 0x20 || r == 0x7f || r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff {
				t.Fatalf("%q keeps %U", out, r)
			}
		}
		if len(out) > 4096 {
			t.Fatalf("%d bytes", len(out))
		}
	})
	if got := consent.Plain("a\xffb\n"); got != `a\xffb\u{a}` {
		t.Errorf("%q", got)
	}
	if got := consent.Plain("a\xffb\n" + strings.Repeat("é", 400)); !strings.HasPrefix(got, "a\uFFFDb\\u{a}é") || !strings.HasSuffix(got, "bytes more)") {
		t.Errorf("%q", got)
	}
}
