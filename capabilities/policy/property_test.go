package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// The pools that random policies are drawn from. Every text type-checks under
// every scope.
var (
	scopes = []string{
		`action`, `action == Action::"tool.browser.navigate"`, `action in Action::"family:browser"`, `action in Action::"all"`,
		`action in [Action::"tool.browser.click", Action::"tool.browser.navigate", Action::"tool.desktop.mouse"]`,
		`action in Action::"effect:external"`, `action in Action::"family:desktop"`, `action == Action::"isolation.accept-degraded"`,
	}
	conditions = []string{
		`context.consent`, `!context.consent`, `context.given == "t2"`, `context.degraded == "chrome_sandbox"`, `context.lane == "lane"`,
		`context.keys.contains("network.browser.session")`, `principal == Agent::"alice"`, `resource is Node && resource.labels.contains("office")`,
		`context.args has host && context.args.host == "a.example"`,
		`context.args has address && context.args.address == "public"`,
		`!(context.args has address) || context.args.address == "name"`,
		`if context.args has host && context.args.host like "*.example" then context.consent else true`,
		`if context.consent then context.args has ref else context.args has url`,
		`context.args has url || context.consent`,
		`context.args has url && context.time + 9223372036854775807 > 0`, // fails, for calls with a URL
		`context.time + 9223372036854775807 > 0`,                         // always fails
		`!(context.args has url) && context.lane == "lane"`,
		`{"a": context}.a.args has url`, // context as a whole
	}
	tools = []capabilities.ToolID{"tool.browser.navigate", "tool.browser.tabs", "tool.browser.click", "tool.browser.close", "tool.desktop.mouse", "tool.desktop.screenshot", "tool.node.list"}
	args  = map[capabilities.ToolID][]string{
		"tool.browser.navigate": {`{"url":"https://a.example/"}`, `{"url":"http://8.8.8.8/"}`, `{"url":"about:blank"}`},
		"tool.browser.tabs":     {`{}`, `{"action":"new","url":"https://b.example/"}`},
		"tool.browser.click":    {`{"ref":"e1"}`, `{"selector":"a"}`},
	}
	classes = []capabilities.IsolationClass{"t2", "session", "t1", "none", ""}
)

// everyRequest is every combination of the above: rules are dear to load and
// cheap to ask, so each set is asked everything.
var everyRequest = sync.OnceValue(func() []Request {
	var all []Request
	for _, tool := range tools {
		list := args[tool]
		if list == nil {
			list = []string{`{}`}
		}
		for _, text := range list {
			for _, principal := range []capabilities.PrincipalID{"alice", "bob"} {
				for _, given := range classes {
					for _, degraded := range []string{"", "chrome_sandbox"} {
						r := request(tool, text)
						r.Principal, r.Given, r.Degraded = principal, given, degraded
						all = append(all, r)
					}
				}
			}
		}
	}
	return all
})

func drawRule(t *rapid.T) string {
	var b strings.Builder
	b.WriteString(rapid.SampledFrom([]string{"permit", "permit", "forbid"}).Draw(t, "effect"))
	fmt.Fprintf(&b, " (principal, %s, resource)", rapid.SampledFrom(scopes).Draw(t, "scope"))
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		fmt.Fprintf(&b, " %s { %s }", rapid.SampledFrom([]string{"when", "unless"}).Draw(t, "kind"), rapid.SampledFrom(conditions).Draw(t, "condition"))
	}
	b.WriteString(";\n")
	return b.String()
}

// drawRules begins with permits as often as not, so that what follows has
// something to narrow.
func drawRules(t *rapid.T) string {
	first := rapid.SampledFrom([]string{
		"", permitAll + "\n", "permit (principal, action, resource) when { context.consent };\n",
		permitAll + "\npermit (principal, action == Action::\"isolation.accept-degraded\", resource);\n",
	}).Draw(t, "first")
	return first + strings.Join(rapid.SliceOfN(rapid.Custom(drawRule), 0, 3).Draw(t, "rules"), "")
}

func drawForbid(t *rapid.T) string {
	return strings.Replace(rapid.Custom(drawRule).Draw(t, "forbid"), "permit", "forbid", 1)
}

var vocabularyOnce = sync.OnceValues(func() (*vocabulary, error) {
	cat, err := catalog.Embedded()
	if err != nil {
		return nil, err
	}
	return newVocabulary(cat)
})

func propertyLoad(t *rapid.T, text string) *Engine {
	v, err := vocabularyOnce()
	if err != nil {
		t.Fatal(err)
	}
	e, err := v.load([]Source{{Name: "p.cedar", Data: []byte(text)}})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return e
}

// Every condition type-checks, or the properties below would test nothing.
func TestPoolsLoad(t *testing.T) {
	for _, s := range scopes {
		for _, c := range conditions {
			mustLoad(t, fmt.Sprintf("permit (principal, %s, resource) when { %s };", s, c))
		}
	}
}

// A denied call, whatever the owner of a device writes, stays denied, and an
// owner's forbid never loosens what holds.
func TestOwnerOnlyNarrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gateway := propertyLoad(t, drawRules(t))
		text := drawRules(t)
		owner := propertyLoad(t, text)
		more := propertyLoad(t, text+drawRule(t))
		forbid := drawForbid(t)
		narrowed := propertyLoad(t, text+forbid)
		for _, r := range everyRequest() {
			g, o := gateway.Decide(r), owner.Decide(r)
			effective := Stricter(g, o)
			if effective.Effect > g.Effect || effective.Effect > o.Effect {
				t.Fatalf("gateway %s, owner %s, together %s", g.Effect, o.Effect, effective.Effect)
			}
			if e := Stricter(g, more.Decide(r)); g.Effect == Deny && e.Effect != Deny {
				t.Fatalf("adding an owner's rule turned deny into %s", e.Effect)
			}
			if e := Stricter(g, narrowed.Decide(r)); e.Effect > effective.Effect {
				t.Fatalf("adding an owner's forbid turned %s into %s\n%s%s", effective.Effect, e.Effect, text, forbid)
			}
		}
	})
}

// A tool that can be dispatched can be seen: Possible knows no arguments and is never stricter than
// Decide with some.
func TestDispatchAllowedImpliesVisible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRules(t)
		e := propertyLoad(t, text)
		for _, r := range everyRequest() {
			for _, r.Consented = range []bool{false, true} {
				decided, possible := e.Decide(r), e.Possible(r)
				if possible.Effect < decided.Effect {
					t.Fatalf("%s %s given %q: decided %s, possible %s\n%s", r.Tool, r.Args, r.Given, decided.Effect, possible.Effect, text)
				}
			}
		}
	})
}

func TestForbidWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRules(t)
		forbid := drawForbid(t)
		before, after := propertyLoad(t, text), propertyLoad(t, text+forbid)
		all := propertyLoad(t, text+`forbid (principal, action, resource);`)
		failing := propertyLoad(t, text+`forbid (principal, action, resource) when { context.time + 9223372036854775807 > 0 };`)
		for _, r := range everyRequest() {
			for _, r.Consented = range []bool{false, true} {
				for _, e := range []*Engine{all, failing} {
					if d, p := e.Decide(r), e.Possible(r); d.Effect != Deny || p.Effect != Deny {
						t.Fatalf("decided %+v, possible %+v", d, p)
					}
				}
				// Any forbid at all only narrows.
				if b, a := before.Decide(r), after.Decide(r); a.Effect > b.Effect {
					t.Fatalf("a forbid turned %s into %s\n%s%s", b.Effect, a.Effect, text, forbid)
				}
			}
		}
	})
}

func TestAlwaysAskingProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := propertyLoad(t, drawRules(t))
		for _, r := range everyRequest() {
			if d := e.Decide(r); e.Profile(r.Tool).Asks && d.Effect == Allow {
				t.Fatalf("%s: %+v", r.Tool, d)
			}
		}
	})
}

// A class that is not given in full is denied unless a permit names that very
// acceptance.
func TestNoFallbackProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRules(t)
		e := propertyLoad(t, text)
		if slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "permit") && strings.Contains(line, AcceptDegraded)
		}) {
			return
		}
		for _, r := range everyRequest() {
			need := e.Profile(r.Tool).Isolation
			short := r.Tool != "tool.node.list" && (r.Degraded != "" || !r.Given.Meets(need, e.Profile(r.Tool).InSession))
			if d := e.Decide(r); short && d.Effect != Deny {
				t.Fatalf("needs %s, given %q without %q: %+v\n%s", need, r.Given, r.Degraded, d, text)
			}
		}
	})
}

// A grant turns an ask into an allow, and nothing else; the same question gets
// the same answer.
func TestConsentProperty(t *testing.T) {
	want := map[Effect]Effect{Deny: Deny, Ask: Allow, Allow: Allow}
	rapid.Check(t, func(t *rapid.T) {
		e := propertyLoad(t, drawRules(t))
		for _, r := range everyRequest() {
			before := e.Decide(r)
			r.Consented = true
			after := e.Decide(r)
			if after.Effect != want[before.Effect] {
				t.Fatalf("%s became %s", before.Effect, after.Effect)
			}
			if again := e.Decide(r); fmt.Sprint(again) != fmt.Sprint(after) {
				t.Fatalf("the same question got two answers: %+v, %+v", after, again)
			}
		}
	})
}
