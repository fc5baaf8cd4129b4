package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// crowd is the embedded catalog and the tools of three providers.
type crowd []*catalog.Descriptor

func (c crowd) All() []*catalog.Descriptor { return c }

func newCrowd(t testing.TB, tools int) crowd {
	t.Helper()
	c := crowd(testCatalog(t).All())
	for n := range tools {
		p := fmt.Sprintf("p%d", n%3)
		id := capabilities.ToolID(fmt.Sprintf("tool.%s.t%d", p, n/3))
		d := &catalog.Descriptor{
			Capability: capabilities.CapabilityID("tyrum" + string(id[4:])), Tool: id, Title: "Do", Description: "Does.", Version: "1.0.0", Tags: []string{p}, SideEffects: catalog.EffectsLocal,
			ModelFacing: true, Nature: catalog.NatureTool, Layer: catalog.LayerRemote, Provider: p, Input: json.RawMessage(`{"type":"object","additionalProperties":false}`),
			Result: json.RawMessage(`{"type":"object","additionalProperties":false}`), Defaults: catalog.Defaults{Isolation: capabilities.ClassT0},
			Routing:     catalog.Routing{Target: catalog.TargetNode, Implicit: []capabilities.SelectionMode{capabilities.SelectHost}},
			Idempotency: catalog.Idempotency{Mode: catalog.IdempotencyGuard}, Limits: catalog.Limits{TimeoutMS: 1, MaxTimeoutMS: 1, MaxResultBytes: 100}, Consent: catalog.ConsentLease,
		}
		if n%2 == 0 {
			d.Manifest.Data, d.Defaults.Isolation = []string{"read.workspace"}, capabilities.ClassT1
		}
		if err := catalog.SettleOwn(d); err != nil {
			t.Fatal(err)
		}
		c = append(c, d)
	}
	return c
}

// Files are judged by one tool of each class as by all of them: the same ones load, with the same
// complaints, and decide the same.
func TestManyToolsAreJudgedByFew(t *testing.T) {
	tools := newCrowd(t, 90)
	few, err := newVocabulary(tools)
	if err != nil {
		t.Fatal(err)
	}
	if got, all := len(few.typical), len(few.tools); got > all-80 {
		t.Fatalf("%d of %d tools are typical", got, all)
	}
	all, err := newVocabulary(tools)
	if err != nil {
		t.Fatal(err)
	}
	all.typical, all.few, all.first = all.tools, all.all, nil
	for i, r := range tools[len(tools)-90:] {
		if i%3 != 0 {
			all.tools[r.Tool].class = "" // nothing is shared with it, either
		}
	}
	loaded, refused := 0, 0
	for _, text := range []string{
		`permit (principal, action == Action::"tool.p1.t7", resource);`,
		`permit (principal, action in [Action::"tool.p1.t7", Action::"tool.p2.t29"], resource);`,
		`permit (principal, action == Action::"tool.p1.t77", resource);`,
		`permit (principal, action in [Action::"tool.p1.t7", Action::"tool.p1.t77"], resource);`,
		`permit (principal, action in [Action::"tool.p1.t7", Action::"tool.p1.t8", Action::"tool.p1.t7", Action::"family:p2"], resource) when { context.consent };`,
		`permit (principal, action in [Action::"tool.p1.t7", Action::"tool.p1.t8"], resource) unless { action == Action::"tool.p1.t7" };`,
		`permit (principal, action == Action::"tool.p1.t7", resource) when { action == Action::"tool.p1.t7" || context.args.host == "a" };`,
		`permit (principal, action in [Action::"tool.p1.t7", Action::"tool.browser.click"], resource) when { context.args has ref };`,
		`permit (principal, action in [Action::"tool.p1.t7", Action::"tool.p1.t8"], resource) when { context.args has ref };`,
		`permit (principal, action in Action::"family:p1", resource) when { context.consent };`,
		`permit (principal, action in Action::"family:p9", resource);`,
		`permit (principal, action in Action::"family:p1", resource) unless { action == Action::"tool.p1.t7" };`,
		`permit (principal, action in Action::"family:p1", resource) when { action == Action::"tool.p1.t\u{37}" };`,
		"permit (principal, action == Action // so\n :: \"tool.p1.t7\", resource);",
		`permit (principal, action in Action::"family:p1", resource) when { context.args.host == "a" };`,
		`permit (principal, action == Action::"tool.p1.t7", resource) when { context.args has host };`,
		`permit (principal, action == Action::"tool.p1.t7", resource) when { context.args.count > 1 };`,
		`permit (principal, action, resource) when { resource.label == "desk" };`,
		`permit (principal, action in Action::"family:p1", resource) when { resource.label == "desk" };`,
		`permit (principal, action == Action::"tool.p1.t7", resource == Provider::"gateway");`,
		`permit (principal, action in Action::"effect", resource) when { context.keys.contains("x") || 1 == "a" };`,
		`permit (principal, action, resource); forbid (principal, action == Action::"keys:data.read.workspace", resource);`,
	} {
		sources := []Source{{Name: "a.cedar", Data: []byte(text)}}
		one, oneErr := few.load(sources)
		other, otherErr := all.load(sources)
		// The library has no order of its complaints.
		if a, b := fmt.Sprint(oneErr), fmt.Sprint(otherErr); (oneErr == nil) != (otherErr == nil) || strings.Count(a, "; ") != strings.Count(b, "; ") {
			t.Errorf("%s\nby few: %v\nby all: %v", text, oneErr, otherErr)
			continue
		}
		if oneErr != nil {
			refused++
			continue
		}
		loaded++
		for _, d := range tools[len(tools)-90:] {
			if a, b := one.Decide(request(d.Tool, `{}`)), other.Decide(request(d.Tool, `{}`)); fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("%s\n%s by few: %v, by all: %v", text, d.Tool, a, b)
			}
		}
	}
	if loaded < 6 || refused < 5 {
		t.Errorf("%d files load, %d do not: the comparison says little", loaded, refused)
	}
	if e, err := few.load(nil); err != nil || len(e.Schema()) < 90*100 {
		t.Errorf("%v", err)
	}
}

// Rules of another time may name tools that are gone: they are loaded to judge again, by their
// names, and put in force never (S4-05).
func TestPastRulesNameToolsThatAreGone(t *testing.T) {
	c := newCrowd(t, 90)
	loader, err := NewLoader(c)
	if err != nil {
		t.Fatal(err)
	}
	sources := []Source{{Name: "a.cedar", Data: []byte(`@id("gone") permit (principal, action in [Action::"tool.former.act", Action::"tool.former.see"], resource);
		@id("there") permit (principal, action == Action::"tool.p1.t7", resource);
		@id("nobody") forbid (principal, action == Action::"policy.activate", resource);`)}}
	if _, err := loader.Load(sources); err == nil {
		t.Error("rules in force name tools that nobody has")
	}
	e, err := loader.LoadPast(sources)
	if err != nil {
		t.Fatal(err)
	}
	if d := e.Decide(request("tool.p1.t7", `{}`)); d.Effect != Allow || fmt.Sprint(d.Determining) != "[there]" {
		t.Errorf("%+v", d)
	}
	if d := e.Decide(request("tool.p1.t8", `{}`)); d.Effect != Deny {
		t.Errorf("%+v", d)
	}
	if d := e.Decide(request("tool.former.act", `{}`)); d.Effect != Allow {
		t.Errorf("%+v", d)
	}
	if _, err := loader.Load(sources); err == nil {
		t.Error("a past load taught the loader tools")
	}
	if _, err := loader.LoadPast([]Source{{Name: "a.cedar", Data: []byte(`permit (principal, action == Action::"no tool", resource);`)}}); err == nil {
		t.Error("a name that is no tool's was known")
	}
}

// One rule may name all the tools of large providers; those of them that it does not name are
// denied.
func TestARuleOfManyTools(t *testing.T) {
	tools := newCrowd(t, 3000)
	var named strings.Builder
	for i, d := range tools[len(tools)-3000:] {
		if i > 0 {
			fmt.Fprintf(&named, "Action::%q,\n", d.Tool)
		}
	}
	e, err := Load([]Source{{Name: "a.cedar", Data: []byte(`@id("many") permit (principal, action in [` + named.String() + `Action::"tool.browser.click"], resource) when { context.consent };`)}}, tools)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range tools[len(tools)-3000:] {
		want := Ask
		if i == 0 {
			want = Deny
		}
		r := request(d.Tool, `{}`)
		if got, possible := e.Decide(r), e.Possible(r); got.Effect != want || possible.Effect != want || want == Ask && fmt.Sprint(got.Determining) != "[many]" {
			t.Fatalf("%s: %+v, in lists %+v", d.Tool, got, possible)
		}
	}
	if x := e.Explain(request("tool.p1.t7", `{}`)); len(x.Rules) != 1 || x.Rules[0].Applies || !x.Rules[0].AppliesConsent {
		t.Errorf("%+v", x)
	}
}
