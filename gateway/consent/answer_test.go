package consent_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// Of many answers at once exactly one counts, and every other one is recorded. A
// lost "allow" leaves no grant behind, not even for a moment.
func TestFirstAnswerWins(t *testing.T) {
	for round := range 20 {
		r := fresh(t, time.Minute)
		got := r.await(ask())
		w := r.waiting()
		const people = 8
		won := make(chan bool, people) // whether the winner allowed
		var wg sync.WaitGroup
		for i := range people {
			wg.Go(func() {
				allow := i%2 == 0
				_, err := r.Answer(context.Background(), w.ID, consent.Answer{Allow: allow, By: capabilities.PrincipalID(fmt.Sprint("p", i))})
				switch {
				case err == nil:
					won <- allow
				case !is(err, capabilities.CodeConflict):
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		close(won)
		var winners []bool
		for allow := range won {
			winners = append(winners, allow)
		}
		if len(winners) != 1 {
			t.Fatalf("%d answers counted", len(winners))
		}
		if o := <-got; (o.err == nil) != winners[0] {
			t.Errorf("allowed %v, and then %+v", winners[0], o)
		}
		if all := r.Grants(); len(all) != 0 {
			t.Errorf("left behind: %+v", all)
		}
		r.mu.Lock()
		if n := strings.Count(strings.Join(r.records, "|"), "gateway.approval.late"); n != people-1 {
			t.Errorf("%d late answers recorded", n)
		}
		r.mu.Unlock()
		if a, err := r.Approval(w.ID); err != nil || a.State == consent.StatePending || a.By == "" {
			t.Errorf("%+v %v", a, err)
		}
		_ = r.db.Close()
	}
}

func TestPromptsAreRateLimited(t *testing.T) {
	r := fresh(t, time.Millisecond)
	put := func(principal capabilities.PrincipalID, n int) error {
		a := ask()
		a.Principal, a.Args = principal, fmt.Append(nil, n)
		return (<-r.await(a)).err
	}
	deny := func() {
		for _, w := range r.Approvals() {
			if _, err := r.Answer(t.Context(), w.ID, consent.Answer{By: "anna"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 8 {
		if err := put("agent", i); !is(err, capabilities.CodeApprovalPending) {
			t.Fatal(err)
		}
		if err := put("agent", i); !is(err, capabilities.CodeApprovalPending) { // joins: no new question
			t.Fatal(err)
		}
		deny()
	}
	if err := put("agent", 100); !is(err, capabilities.CodeOverloaded) {
		t.Errorf("a ninth question at once: %v", err)
	}
	if err := put("other", 100); !is(err, capabilities.CodeApprovalPending) {
		t.Errorf("another principal pays for it: %v", err)
	}
	deny()
	r.advance(10 * time.Second)
	if err := put("agent", 101); !is(err, capabilities.CodeApprovalPending) {
		t.Errorf("after a while: %v", err)
	}
	deny()
	if err := put("agent", 102); !is(err, capabilities.CodeOverloaded) {
		t.Errorf("and at once again: %v", err)
	}
}

func TestScope(t *testing.T) {
	r := fresh(t, -1)
	at := time.Now()
	r.now = at
	grant := func(s consent.Scope) {
		t.Helper()
		for _, g := range r.Grants() {
			_ = r.Revoke(t.Context(), g.ID, "anna")
		}
		_, err := r.Grant(t.Context(), consent.Spec{
			Principal: "agent", Tools: []string{"tool.desktop.*"}, Node: "n1", Lane: "l1", Scope: s, Approver: "anna",
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	covered := func(reach consent.Reach) bool {
		a := ask()
		a.Reach = reach
		return (<-r.await(a)).err == nil
	}
	for _, c := range []struct {
		what  string
		scope consent.Scope
		yes   []consent.Reach
		no    []consent.Reach
	}{
		{"domains", consent.Scope{Domains: []string{"Example.com", "*.bücher.example"}},
			[]consent.Reach{{Hosts: []string{"example.com"}}, {Hosts: []string{"a.b.xn--bcher-kva.example", "example.com"}}, {Confined: true}},
			[]consent.Reach{{}, {Hosts: []string{""}}, {Hosts: []string{"evilexample.com"}}, {Hosts: []string{"example.com", "other.example"}}, {Hosts: []string{"example.com.evil.test"}}}},
		{"apps", consent.Scope{Apps: []string{"Text Editor"}},
			[]consent.Reach{{Apps: []string{"text editor"}}},
			[]consent.Reach{{}, {Apps: []string{"Text Editor 2"}}, {Apps: []string{"Text Editor", "Terminal"}}}},
		{"paths", consent.Scope{Paths: []string{"/data/up", `C:\Up`}},
			[]consent.Reach{{Paths: []string{"/data/up/a", "/data/up"}}, {Paths: []string{`C:\Up\x\y`}}},
			[]consent.Reach{{}, {Paths: []string{"/data/upper"}}, {Paths: []string{"/data/up/../x"}}, {Paths: []string{"up/a"}}, {Paths: []string{"/data/up/a", "/etc/passwd"}}}},
		{"window", consent.Scope{Starts: at.Add(time.Minute)}, nil, []consent.Reach{{}}},
	} {
		grant(c.scope)
		for _, y := range c.yes {
			if !covered(y) {
				t.Errorf("%s: %+v is not covered", c.what, y)
			}
		}
		for _, n := range c.no {
			if covered(n) {
				t.Errorf("%s: %+v is covered", c.what, n)
			}
		}
	}
	r.advance(2 * time.Minute)
	if !covered(consent.Reach{}) {
		t.Error("the window has begun, and nothing is covered")
	}
	for _, bad := range []consent.Scope{
		{Domains: []string{"https://example.com"}}, {Domains: []string{"a/b"}}, {Domains: []string{"*.1.2.3.4"}}, {Domains: []string{"*"}}, {Domains: []string{""}},
		{Paths: []string{"relative"}}, {Paths: []string{"/a/../b"}}, {Apps: []string{"a\u202eb"}}, {Domains: make([]string, 33)},
	} {
		if _, err := r.Grant(t.Context(), consent.Spec{
			Principal: "agent", Tools: []string{"tool.desktop.*"}, Node: "n1", Lane: "l1", Scope: bad, Approver: "anna",
		}); !is(err, capabilities.CodeInvalidRequest) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A scope covers all that it does with every other scope taken away too: a
// scope only narrows.
func TestScopeOnlyNarrows(t *testing.T) {
	r := fresh(t, -1)
	hosts := rapid.SampledFrom([]string{"", "a.test", "b.test", "x.a.test", "xa.test"})
	paths := rapid.SampledFrom([]string{"/a", "/a/b", "/ab", "/a/../c", "a"})
	rapid.Check(t, func(rt *rapid.T) {
		reach := consent.Reach{
			Hosts: rapid.SliceOfN(hosts, 0, 3).Draw(rt, "hosts"), Paths: rapid.SliceOfN(paths, 0, 3).Draw(rt, "paths"), Confined: rapid.Bool().Draw(rt, "confined"),
		}
		s := consent.Scope{Domains: rapid.SliceOfN(rapid.SampledFrom([]string{"a.test", "*.a.test"}), 0, 2).Draw(rt, "domains")}
		if rapid.Bool().Draw(rt, "path") {
			s.Paths = []string{"/a"}
		}
		spec := consent.Spec{Principal: "agent", Tools: []string{"tool.desktop.act"}, Node: "n1", Lane: "l1", Approver: "anna", Scope: s}
		a := ask()
		a.Reach = reach
		covers := func(spec consent.Spec) bool {
			g, err := r.Grant(t.Context(), spec)
			if err != nil {
				rt.Fatal(err)
			}
			defer func() { _ = r.Revoke(t.Context(), g.ID, "anna") }()
			return (<-r.await(a)).err == nil
		}
		narrow := covers(spec)
		spec.Scope = consent.Scope{}
		if wide := covers(spec); !wide {
			rt.Fatal("a grant without scope does not cover")
		}
		if narrow && len(s.Domains) > 0 && !reach.Confined {
			for _, h := range reach.Hosts {
				if h != "a.test" && h != "x.a.test" {
					rt.Fatalf("%q inside %v", h, s.Domains)
				}
			}
		}
	})
}

// While somebody else holds mouse and keyboard of a device, and a moment longer.
func TestHandsOn(t *testing.T) {
	r := fresh(t, -1)
	hands := func() string { return fmt.Sprint(r.HandsOn()) }
	spec := consent.Spec{Principal: "agent", Tools: []string{"tool.desktop.*"}, Node: "n1", Lane: "l1", Approver: "anna", For: time.Minute}
	if hands() != "[]" {
		t.Error(hands())
	}
	look := spec
	look.Tools, look.Node = []string{"tool.camera.capture-photo"}, "n2"
	if _, err := r.Grant(t.Context(), look); err != nil || hands() != "[]" {
		t.Errorf("a camera is no hand: %v %v", hands(), err)
	}
	g, err := r.Grant(t.Context(), spec)
	if err != nil || hands() != "[n1]" {
		t.Fatal(hands(), err)
	}
	if err := r.Revoke(t.Context(), g.ID, "anna"); err != nil || hands() != "[n1]" {
		t.Errorf("what is on its way: %v %v", hands(), err)
	}
	r.advance(16 * time.Second)
	if hands() != "[]" {
		t.Error("long after:", hands())
	}
	if until := r.HandsUntil(); !until.IsZero() {
		t.Error("free, and yet until", until)
	}
	if _, err = r.Grant(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	r.advance(time.Minute + 10*time.Second)
	_ = r.Grants() // which forgets what has ended
	if hands() != "[n1]" {
		t.Error("just expired:", hands())
	}
	r.advance(10 * time.Second)
	if hands() != "[]" {
		t.Error("expired:", hands())
	}
}

// One call that was allowed once is hands while it runs and a moment longer: it can type a whole
// command. A tool that only looks is none.
func TestOneCallIsHandsToo(t *testing.T) {
	r := fresh(t, time.Minute)
	hands := func() string { return fmt.Sprint(r.HandsOn()) }
	run := func(tool capabilities.ToolID) consent.Permit {
		t.Helper()
		a := ask()
		a.Tool, a.Node = tool, "n1"
		got := r.await(a)
		if _, err := r.Answer(t.Context(), r.waiting().ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
			t.Fatal(err)
		}
		o := <-got
		if o.err != nil {
			t.Fatal(o.err)
		}
		return o.p
	}
	p := run("tool.desktop.keyboard")
	r.advance(time.Hour) // however long it takes
	if hands() != "[n1]" {
		t.Error("while it runs:", hands())
	}
	if until := r.HandsUntil(); until.Sub(r.now) < time.Hour {
		t.Error("nobody knows how long:", until)
	}
	r.Ended(p)
	if left := r.HandsUntil().Sub(r.now); left != consent.CallGrace {
		t.Error("to be waited out:", left)
	}
	r.advance(4 * time.Second)
	if hands() != "[n1]" {
		t.Error("on its way:", hands())
	}
	r.advance(2 * time.Second)
	if hands() != "[]" {
		t.Error("long after:", hands())
	}
	if p = run("tool.camera.capture-photo"); hands() != "[]" {
		t.Error("a camera is no hand:", hands())
	}
	r.Ended(p)
}

// To pull the stop switch does not free their own hands by it.
func TestAStopKeepsHandsOn(t *testing.T) {
	r := fresh(t, -1)
	if _, err := r.Grant(t.Context(), consent.Spec{Principal: "agent", Tools: []string{"tool.desktop.*"}, Node: "n1", Lane: "l1", Approver: "anna", For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if n := r.Halt(""); n != 1 || fmt.Sprint(r.HandsOn()) != "[n1]" {
		t.Errorf("%d grants ended, hands on %v", n, r.HandsOn())
	}
	r.advance(16 * time.Second)
	if len(r.HandsOn()) != 0 {
		t.Error(r.HandsOn())
	}
}

// A grant is for what its tools were: when a new version declares more under the
// same name, a restart takes it back, and what has not changed stays.
func TestAChangedToolIsAskedAboutAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	before := open(t, path, -1)
	spec := consent.Spec{Principal: "agent", Node: "n1", Lane: "l1", Approver: "anna"}
	for _, tools := range [][]string{{"tool.desktop.mouse"}, {"tool.desktop.*"}, {"tool.camera.capture-photo"}} {
		spec.Tools = tools
		if _, err := before.Grant(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	_ = before.db.Close()
	same := open(t, path, -1)
	if n := len(same.Grants()); n != 3 {
		t.Fatalf("the control: %d grants", n)
	}
	_ = same.db.Close()
	after := openWith(t, path, -1, func(tool string) string {
		if strings.HasPrefix(tool, "tool.desktop.") {
			return "more than before"
		}
		return ""
	})
	if all := after.Grants(); len(all) != 1 || all[0].Tools[0] != "tool.camera.capture-photo" {
		t.Errorf("%+v", all)
	}
	if n := strings.Count(strings.Join(after.records, "|"), "gateway.grant.revoked"); n != 2 {
		t.Errorf("%d are recorded as revoked", n)
	}
	_ = after.db.Close()
	if n := len(open(t, path, -1).Grants()); n != 1 {
		t.Errorf("%d with the old version back", n)
	}
}

// An answer comes from whoever may give it, and lasts for good only where that is safe (S2-34).
func TestWhoMayAnswer(t *testing.T) {
	r := fresh(t, time.Millisecond)
	n := 0
	open := func(change func(*consent.Ask)) consent.Approval {
		t.Helper()
		for _, w := range r.Approvals() {
			_, _ = r.Answer(t.Context(), w.ID, consent.Answer{By: "x"})
		}
		r.advance(time.Minute)
		n++
		a := ask()
		a.Args = fmt.Append(nil, n) // what was allowed once waits for its own call
		change(&a)
		<-r.await(a)
		return r.waiting()
	}
	allow := func(id string, a consent.Answer) error {
		a.Allow = true
		_, err := r.Answer(t.Context(), id, a)
		return err
	}
	w := open(func(a *consent.Ask) { a.Role, a.Principal = "operator", "bob" })
	if err := allow(w.ID, consent.Answer{By: "bob"}); !is(err, capabilities.CodeForbidden) {
		t.Errorf("one's own question: %v", err)
	}
	if err := allow(w.ID, consent.Answer{By: "anna"}); err != nil {
		t.Error(err)
	}
	w = open(func(*consent.Ask) {})
	if err := allow(w.ID, consent.Answer{By: "agent", Via: consent.ViaMCP}); !is(err, capabilities.CodeForbidden) {
		t.Errorf("the user, whom policy does not name: %v", err)
	}
	w = open(func(a *consent.Ask) { a.User = true })
	if err := allow(w.ID, consent.Answer{By: "agent", Via: consent.ViaMCP, Kind: consent.KindLease}); !is(err, capabilities.CodeForbidden) {
		t.Errorf("a lease from the client: %v", err)
	}
	if err := allow(w.ID, consent.Answer{By: "agent", Via: consent.ViaMCP}); err != nil {
		t.Error(err)
	}
	w = open(func(a *consent.Ask) { a.Longest = consent.KindAlways })
	if len(w.Choices) != 4 {
		t.Errorf("%+v", w.Choices)
	}
	if err := allow(w.ID, consent.Answer{By: "anna", Kind: consent.KindAlways}); err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Grants() {
		if g.Kind == consent.KindSession && (g.Lane != "" || g.Expires.Sub(g.Created) < 300*24*time.Hour) {
			t.Errorf("%+v", g)
		}
	}
}

// Text that is shown can neither hide nor disguise anything.
func TestWhatIsShown(t *testing.T) {
	r := fresh(t, time.Millisecond)
	a := ask()
	a.Evidence = map[string]any{
		"text": "\x1b[2JAPPROVED\u202e\nok\u200b", "url": "https://paypal.com@ex\u0430mple.com/a\u202eb", "many": make([]any, 100),
		"long": strings.Repeat("x", 10_000), "deep": map[string]any{"a": map[string]any{"b": map[string]any{"c": map[string]any{"d": "\x07"}}}}, "n": int64(7), "k\x1b": true,
	}
	a.Reach.Paths, a.Reach.Hosts = []string{"/a\n/b"}, []string{"xn--exmple-4nf.com"}
	<-r.await(a)
	w := r.waiting()
	all := fmt.Sprint(w.Arguments, w.Paths, w.Hosts, w.Why)
	for _, bad := range []string{"\x1b", "\u202e", "\u200b", "\n", "\x07", "paypal.com", "\u0430"} {
		if strings.Contains(all, bad) {
			t.Errorf("%q is shown: %s", bad, all)
		}
	}
	for _, want := range []string{`\u{1b}[2JAPPROVED\u{202e}\u{a}ok`, "https://xn--exmple-4nf.com/a", "n:7", "bytes more", "84 more"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not shown: %s", want, all)
		}
	}
	if len(all) > 8000 {
		t.Errorf("%d bytes", len(all))
	}
}

// The rules that an approval offers load, and decide as they say.
func TestOverridesDecide(t *testing.T) {
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	r := fresh(t, time.Millisecond)
	for _, c := range []struct {
		tool         capabilities.ToolID
		always       bool
		also         string // a rule of the site's own
		permit, deny policy.Effect
	}{
		{"tool.browser.upload-file", false, "", policy.Allow, policy.Deny},
		{"tool.desktop.screenshot", true, "", policy.Ask, policy.Deny},
		{"tool.desktop.mouse", true, "", policy.Ask, policy.Deny},
		{"tool.browser.upload-file", false, "forbid (principal, action, resource) unless { context.consent };", policy.Ask, policy.Deny},
	} {
		r.advance(time.Minute)
		a := ask()
		a.Tool, a.Always, a.Forbidden = c.tool, c.always, c.also != ""
		<-r.await(a)
		w := r.waiting()
		if len(w.Overrides) != 2 || (w.Overrides[0].Note == "") != (c.permit == policy.Allow) {
			t.Fatalf("%+v", w.Overrides)
		}
		for i, want := range []policy.Effect{c.permit, c.deny} {
			e, err := policy.Load([]policy.Source{
				{Name: "default.cedar", Data: policy.DefaultSource()}, {Name: "override.cedar", Data: []byte(w.Overrides[i].Cedar)},
				{Name: "site.cedar", Data: []byte(c.also)},
			}, cat)
			if err != nil {
				t.Fatal(err)
			}
			q := policy.Request{
				Principal: a.Principal, Role: "agent", Tool: c.tool, Node: policy.Node{ID: a.Node}, Lane: a.Lane, Args: []byte(`{}`),
				Given: capabilities.ClassSession, Time: time.Now(),
			}
			if got := e.Decide(q); got.Effect != want {
				t.Errorf("%s with %s: %+v", c.tool, w.Overrides[i].Cedar, got)
			}
			q.Principal = "another"
			if got := e.Decide(q); got.Effect != policy.Ask {
				t.Errorf("%s for another: %+v", c.tool, got)
			}
		}
		if _, err := r.Answer(t.Context(), w.ID, consent.Answer{By: "anna"}); err != nil {
			t.Fatal(err)
		}
	}
	r.advance(time.Minute)
	a := ask()
	a.Node = `n"; permit(principal,action,resource); //`
	<-r.await(a)
	if w := r.waiting(); len(w.Overrides) != 0 {
		t.Errorf("%+v", w.Overrides)
	}
}
