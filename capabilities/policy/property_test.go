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
	classes = []capabilities.IsolationClass{"t0", "t1", "t2", "t3", "session", "none", ""}
)

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

func drawRules(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.Custom(drawRule), 0, 5).Draw(t, "rules"), "")
}

func drawRequest(t *rapid.T) Request {
	tool := rapid.SampledFrom(tools).Draw(t, "tool")
	r := request(tool, `{}`)
	if list := args[tool]; list != nil {
		r.Args = []byte(rapid.SampledFrom(list).Draw(t, "args"))
	}
	r.Principal = capabilities.PrincipalID(rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "principal"))
	r.Given = rapid.SampledFrom(classes).Draw(t, "given")
	r.Degraded = rapid.SampledFrom([]string{"", "", "chrome_sandbox"}).Draw(t, "degraded")
	return r
}

// loaded keeps engines by text: rapid repeats itself while it shrinks.
var loaded sync.Map

func propertyLoad(t *rapid.T, text string) *Engine {
	if e, ok := loaded.Load(text); ok {
		return e.(*Engine)
	}
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	e, err := Load([]Source{{Name: "p.cedar", Data: []byte(text)}}, cat)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	loaded.Store(text, e)
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

// Whatever the owner of a device writes, a denied call stays denied, and an
// owner's forbid never loosens what holds.
func TestOwnerOnlyNarrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		gateway := propertyLoad(t, drawRules(t)).Decide(r)
		text := drawRules(t)
		owner := propertyLoad(t, text).Decide(r)
		effective := Stricter(gateway, owner)
		if effective.Effect > gateway.Effect {
			t.Fatalf("the owner turned %s into %s", gateway.Effect, effective.Effect)
		}
		more := propertyLoad(t, text+drawRule(t)).Decide(r)
		if e := Stricter(gateway, more); gateway.Effect == Deny && e.Effect != Deny {
			t.Fatalf("adding an owner's rule turned deny into %s", e.Effect)
		}
		forbid := strings.Replace(rapid.Custom(drawRule).Draw(t, "forbid"), "permit", "forbid", 1)
		narrowed := propertyLoad(t, text+forbid).Decide(r)
		if e := Stricter(gateway, narrowed); e.Effect > effective.Effect {
			t.Fatalf("adding an owner's forbid turned %s into %s\n%s", effective.Effect, e.Effect, text+forbid)
		}
	})
}

// What can be dispatched can be seen: Possible knows no arguments and is never
// stricter than Decide with some.
func TestDispatchAllowedImpliesVisible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRules(t)
		e := propertyLoad(t, text)
		r := drawRequest(t)
		r.Consented = rapid.Bool().Draw(t, "consented")
		decided, possible := e.Decide(r), e.Possible(r)
		if possible.Effect < decided.Effect {
			t.Fatalf("%s %s: decided %s, possible %s\n%s", r.Tool, r.Args, decided.Effect, possible.Effect, text)
		}
	})
}

func TestForbidWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRules(t)
		r := drawRequest(t)
		r.Consented = rapid.Bool().Draw(t, "consented")
		for name, forbid := range map[string]string{
			"forbid":          `forbid (principal, action, resource);`,
			"erroring forbid": `forbid (principal, action, resource) when { context.time + 9223372036854775807 > 0 };`,
		} {
			e := propertyLoad(t, text+forbid)
			if d := e.Decide(r); d.Effect != Deny {
				t.Fatalf("%s: %+v", name, d)
			}
			if d := e.Possible(r); d.Effect != Deny {
				t.Fatalf("%s is visible: %+v", name, d)
			}
		}
		// Any forbid at all only narrows.
		forbid := strings.Replace(rapid.Custom(drawRule).Draw(t, "forbid"), "permit", "forbid", 1)
		if before, after := propertyLoad(t, text).Decide(r), propertyLoad(t, text+forbid).Decide(r); after.Effect > before.Effect {
			t.Fatalf("a forbid turned %s into %s", before.Effect, after.Effect)
		}
	})
}

func TestPrivilegedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := propertyLoad(t, drawRules(t)+permitAll)
		r := drawRequest(t)
		r.Tool, r.Args = "tool.desktop.mouse", nil
		if d := e.Decide(r); d.Effect == Allow {
			t.Fatalf("%+v", d)
		}
	})
}

// A class that is not given in full is denied unless a permit names that very
// acceptance.
func TestNoFallbackProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRules(t) + permitAll
		r := drawRequest(t)
		d := propertyLoad(t, text).Decide(r)
		profile := propertyLoad(t, text).Profile(r.Tool)
		short := r.Tool != "tool.node.list" && (r.Degraded != "" || r.Given.Rank() < profile.Isolation.Rank())
		accepts := slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "permit") && strings.Contains(line, AcceptDegraded)
		})
		if short && !accepts && d.Effect != Deny {
			t.Fatalf("needs %s, given %q without %q: %+v", profile.Isolation, r.Given, r.Degraded, d)
		}
	})
}

// A grant turns an ask into an allow, and nothing else.
func TestConsentProperty(t *testing.T) {
	want := map[Effect]Effect{Deny: Deny, Ask: Allow, Allow: Allow}
	rapid.Check(t, func(t *rapid.T) {
		e := propertyLoad(t, drawRules(t))
		r := drawRequest(t)
		before := e.Decide(r)
		r.Consented = true
		after := e.Decide(r)
		if after.Effect != want[before.Effect] {
			t.Fatalf("%s became %s", before.Effect, after.Effect)
		}
		if again := e.Decide(r); fmt.Sprint(again) != fmt.Sprint(after) {
			t.Fatalf("the same question got two answers: %+v, %+v", after, again)
		}
	})
}
