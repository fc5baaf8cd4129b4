package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

var testTime = time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)

func testCatalog(t testing.TB) *catalog.Catalog {
	t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// mustLoad loads texts as a.cedar, b.cedar and so on.
func mustLoad(t testing.TB, texts ...string) *Engine {
	t.Helper()
	e, err := tryLoad(t, texts...)
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(texts, "\n"))
	}
	return e
}

func tryLoad(t testing.TB, texts ...string) (*Engine, error) {
	t.Helper()
	var sources []Source
	for i, text := range texts {
		sources = append(sources, Source{Name: string(rune('a'+i)) + ".cedar", Data: []byte(text)})
	}
	return Load(sources, testCatalog(t))
}

// request asks for a tool on an ordinary node whose browser is isolated.
func request(tool capabilities.ToolID, args string) Request {
	return Request{
		Principal: "alice", Role: "agent", Tool: tool, Lane: "lane", Args: []byte(args), Given: capabilities.ClassT2, Time: testTime,
		Node: Node{ID: "n1", Label: "desk", Platform: "linux", Trust: "trusted", Labels: []string{"office"}},
	}
}

const permitAll = `permit (principal, action, resource);`

func TestNothingPermitsNothing(t *testing.T) {
	for _, e := range []*Engine{mustLoad(t), mustLoad(t, ""), mustLoad(t, "// only a comment")} {
		for _, d := range testCatalog(t).All() {
			got := e.Decide(request(d.Tool, "{}"))
			if got.Effect != Deny || got.Code != capabilities.CodeDeniedByPolicy || len(got.Determining) != 0 {
				t.Errorf("%s: %+v", d.Tool, got)
			}
			if e.Possible(request(d.Tool, "{}")).Effect != Deny {
				t.Errorf("%s is visible", d.Tool)
			}
		}
	}
}

func TestDecide(t *testing.T) {
	const bound = `@id("p") permit (principal, action, resource); @id("bound") forbid (principal, action == Action::"tool.desktop.mouse", resource) unless { context.args has frame_id };`
	click := func(args string) Request {
		r := request("tool.desktop.mouse", args)
		r.Given = capabilities.ClassSession
		return r
	}
	nav := request("tool.browser.navigate", `{"url":"https://example.com/a"}`)
	for _, c := range []struct {
		name   string
		policy string
		req    Request
		want   Effect
		code   capabilities.Code
		by     string // determining policies
	}{
		{"permit", `@id("p") permit (principal, action, resource);`, nav, Allow, "", "p"},
		{"forbid wins", `@id("p") permit (principal, action, resource); @id("f") forbid (principal, action, resource);`, nav, Deny, capabilities.CodeDeniedByPolicy, "f"},
		{"permit with consent asks", `@id("p") permit (principal, action, resource) when { context.consent };`, nav, Ask, "", "p"},
		{"forbid unless consent asks", `@id("p") permit (principal, action, resource); @id("f") forbid (principal, action, resource) unless { context.consent };`, nav, Ask, "", "p f"},
		{"forbid when consent only", `@id("p") permit (principal, action, resource); @id("f") forbid (principal, action, resource) when { context.consent };`, nav, Allow, "", "p"},
		{"a plain permit beside an asking one allows", `@id("a") permit (principal, action, resource) when { context.consent }; @id("p") permit (principal, action, resource);`, nav, Allow, "", "p"},
		{"erroring forbid denies", `@id("p") permit (principal, action, resource); @id("f") forbid (principal, action, resource) when { context.time + 9223372036854775807 == 0 };`, nav, Deny, capabilities.CodeDeniedByPolicy, "f"},
		{"erroring forbid of one step denies both", `@id("p") permit (principal, action, resource); @id("f") forbid (principal, action, resource) unless { context.consent || context.time + 9223372036854775807 == 0 };`, nav, Deny, capabilities.CodeDeniedByPolicy, "f"},
		{"erroring permit permits nothing", `@id("p") permit (principal, action, resource) when { context.time + 9223372036854775807 == 0 };`, nav, Deny, capabilities.CodeDeniedByPolicy, ""},
		{"log-only forbid does not forbid", `@id("p") permit (principal, action, resource); @id("f") @mode("log_only") forbid (principal, action, resource);`, nav, Allow, "", "p"},
		{"log-only permit does not permit", `@id("p") @mode("log_only") permit (principal, action, resource);`, nav, Deny, capabilities.CodeDeniedByPolicy, ""},
		{"family", `@id("p") permit (principal, action in Action::"family:browser", resource);`, nav, Allow, "", "p"},
		{"other family", `@id("p") permit (principal, action in Action::"family:desktop", resource);`, nav, Deny, capabilities.CodeDeniedByPolicy, ""},
		{"effect group", `@id("p") permit (principal, action in Action::"effect:external", resource);`, nav, Allow, "", "p"},
		{"other effect group", `@id("p") permit (principal, action in Action::"effect:none", resource);`, nav, Deny, capabilities.CodeDeniedByPolicy, ""},
		{"all", `@id("p") permit (principal, action in Action::"all", resource);`, nav, Allow, "", "p"},
		{"one node", `@id("p") permit (principal, action, resource == Node::"n1");`, nav, Allow, "", "p"},
		{"another node", `@id("p") permit (principal, action, resource == Node::"n2");`, nav, Deny, capabilities.CodeDeniedByPolicy, ""},
		{"node attributes", `@id("p") permit (principal, action in Action::"family:browser", resource) when { resource.labels.contains("office") && resource.trust == "trusted" && resource.platform == "linux" && resource.label == "desk" };`, nav, Allow, "", "p"},
		{"one agent", `@id("p") permit (principal == Agent::"alice", action, resource);`, nav, Allow, "", "p"},
		{"a person of that name is no agent", `@id("p") permit (principal == User::"alice", action, resource);`, nav, Deny, capabilities.CodeDeniedByPolicy, ""},
		{"role", `@id("p") permit (principal, action, resource) when { principal.role == "agent" };`, nav, Allow, "", "p"},
		{"host", `@id("p") permit (principal, action == Action::"tool.browser.navigate", resource) when { context.args.host == "example.com" && context.args.port == 443 && context.args.origin == "https://example.com" };`, nav, Allow, "", "p"},
		{"other host", `@id("p") permit (principal, action == Action::"tool.browser.navigate", resource) when { context.args.host == "example.org" };`, nav, Deny, capabilities.CodeDeniedByPolicy, ""},
		{"keys, risk, class, lane, tool", `@id("p") permit (principal, action, resource) when { context.keys.contains("network.browser.session") && context.risk == "medium" && context.isolation == "t2" && context.given == "t2" && context.degraded == "" && context.lane == "lane" && context.tool == "tool.browser.navigate" };`, nav, Allow, "", "p"},
		{"unknown tool", permitAll, request("tool.browser.nothing", `{}`), Deny, capabilities.CodeUnknownTool, ""},
		{"unreadable arguments", `permit (principal, action, resource) unless { context.args has host && context.args.host == "example.com" };`, request("tool.browser.navigate", `{"url":7}`), Deny, capabilities.CodeInvalidArguments, ""},
		{"a click that quotes no image", bound, click(`{"action":"click","x":1,"y":1}`), Deny, capabilities.CodeDeniedByPolicy, "bound"},
		{"a click that quotes its image", bound, click(`{"action":"click","x":1,"y":1,"frame_id":"f1-abcd"}`), Ask, "", "p"},
		{"node.list stands on the gateway", `@id("p") permit (principal, action, resource == Provider::"gateway");`, request("tool.node.list", `{}`), Allow, "", "p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustLoad(t, c.policy)
			got := e.Decide(c.req)
			if got.Effect != c.want || got.Code != c.code || (c.by != "" || c.want != Deny) && strings.Join(got.Determining, " ") != c.by {
				t.Fatalf("got %+v", got)
			}
			if got.Reason == "" || got.Snapshot != e.SnapshotID() {
				t.Fatalf("no reason or snapshot: %+v", got)
			}
			c.req.Consented = true
			if again := e.Decide(c.req); (again.Effect == Allow) != (c.want != Deny) {
				t.Fatalf("with a grant: %+v", again)
			}
		})
	}
}

// A policy that compares context as a whole looks at consent without naming it.
func TestContextAsAWhole(t *testing.T) {
	e := mustLoad(t, `permit (principal, action == Action::"tool.browser.run-code", resource) when { context == {
		"consent": true, "tool": "tool.browser.run-code", "lane": "lane", "keys": ["data.write.temp", "execution.browser.script", "network.browser.session"], "risk": "medium",
		"isolation": "t2", "given": "t2", "degraded": "", "raised": 0, "taint": ["desktop"], "time": 1772600767, "wants": "",
		"calls_last_minute": 0, "calls_last_hour": 0, "calls_last_day": 0, "args": {} } };`)
	asked := request("tool.browser.run-code", `{"code":"1"}`)
	asked.Taint = []string{"desktop"}
	if got := e.Decide(asked); got.Effect != Ask {
		t.Fatalf("%+v", got)
	}
	if got := e.Possible(asked); got.Effect == Deny {
		t.Fatalf("%+v", got)
	}
}

func TestLogOnlyIsReported(t *testing.T) {
	e := mustLoad(t, permitAll, `@id("watch") @mode("log_only") forbid (principal, action, resource) when { context.args has host && context.args.host == "example.com" };`)
	got := e.Decide(request("tool.browser.navigate", `{"url":"https://example.com/"}`))
	if got.Effect != Allow || fmt.Sprint(got.LogOnly) != "[forbid watch]" {
		t.Fatalf("%+v", got)
	}
	if got = e.Decide(request("tool.browser.navigate", `{"url":"https://example.org/"}`)); len(got.LogOnly) != 0 {
		t.Fatalf("%+v", got)
	}
}

// S1-22, S1-24, S1-64: whatever a permit says, a tool that is privileged or requires
// approval is asked about until a live grant covers it.
func TestPrivilegedIsNeverPlain(t *testing.T) {
	e := mustLoad(t, permitAll+` permit (principal, action == Action::"isolation.accept-degraded", resource);`)
	seen := 0
	for _, d := range testCatalog(t).All() {
		r := request(d.Tool, `{}`)
		r.Args = nil
		r.Given = capabilities.ClassSession
		got := e.Decide(r)
		if d.Surface != "" { // an admin's own work is nobody's call, whatever a permit says
			if got.Effect != Deny || got.Code != capabilities.CodeDeniedByPolicy {
				t.Errorf("%s: %+v", d.Tool, got)
			}
			continue
		}
		if !Privileged(d.Manifest.Keys()) && !d.Defaults.RequiresApproval {
			if got.Effect != Allow {
				t.Errorf("%s: %+v", d.Tool, got)
			}
			continue
		}
		seen++
		if got.Effect != Ask {
			t.Errorf("%s: %+v", d.Tool, got)
		}
		r.Consented = true
		if got = e.Decide(r); got.Effect != Allow {
			t.Errorf("%s with a grant: %+v", d.Tool, got)
		}
	}
	if seen == 0 {
		t.Fatal("no privileged tool in the catalog")
	}
}

// S1-37, S1-63: a class that is not given is a denial, unless policy accepts it
// by name.
func TestIsolation(t *testing.T) {
	const accept = `permit (principal, action == Action::"isolation.accept-degraded", resource)`
	for _, c := range []struct {
		name     string
		policy   string
		given    capabilities.IsolationClass
		degraded string
		required capabilities.IsolationClass
		want     Effect
		code     capabilities.Code
	}{
		{"as needed", permitAll, "t2", "", "", Allow, ""},
		{"stronger", permitAll, "t3", "", "", Allow, ""},
		{"a session that the tool names", permitAll, "session", "", "", Allow, ""},
		{"weaker", permitAll, "t1", "", "", Deny, capabilities.CodeIsolationUnavailable},
		{"none", permitAll, "none", "", "", Deny, capabilities.CodeIsolationUnavailable},
		{"not stated", permitAll, "", "", "", Deny, capabilities.CodeIsolationUnavailable},
		{"unknown class", permitAll, "t9", "", "", Deny, capabilities.CodeIsolationUnavailable},
		{"degraded", permitAll, "t2", "chrome_sandbox", "", Deny, capabilities.CodeIsolationUnavailable},
		{"raised by an escalation", permitAll, "t2", "", "t3", Deny, capabilities.CodeIsolationUnavailable},
		{"a weaker requirement lowers nothing", permitAll, "t1", "", "t0", Deny, capabilities.CodeIsolationUnavailable},
		{"group all does not accept", `permit (principal, action in Action::"all", resource);`, "t1", "", "", Deny, capabilities.CodeIsolationUnavailable},
		{"accepted by name", permitAll + accept + `;`, "t1", "", "", Allow, ""},
		{"accepted in a list", `permit (principal, action in [Action::"family:browser", Action::"isolation.accept-degraded"], resource);`, "t1", "", "", Allow, ""},
		{"accepted for this lack", permitAll + accept + ` when { context.degraded == "chrome_sandbox" };`, "t1", "chrome_sandbox", "", Allow, ""},
		{"accepted for another lack", permitAll + accept + ` when { context.degraded == "chrome_sandbox" };`, "t1", "landlock", "", Deny, capabilities.CodeIsolationUnavailable},
		{"accepted for one tool", permitAll + accept + ` when { context.tool == "tool.browser.click" };`, "t1", "", "", Deny, capabilities.CodeIsolationUnavailable},
		{"accepted with consent", permitAll + accept + ` when { context.consent };`, "t1", "", "", Ask, ""},
		{"accepting is no permit of the call", accept + `;`, "t1", "", "", Deny, capabilities.CodeDeniedByPolicy},
		{"a forbid for everything forbids accepting", permitAll + accept + `; forbid (principal, action, resource) when { context.degraded != "" };`, "t2", "x", "", Deny, capabilities.CodeDeniedByPolicy},
		{"a log-only accept accepts nothing", permitAll + `@mode("log_only") ` + accept + `;`, "t1", "", "", Deny, capabilities.CodeIsolationUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request("tool.browser.navigate", `{"url":"https://example.com/"}`)
			r.Given, r.Degraded, r.Required = c.given, c.degraded, c.required
			got := mustLoad(t, c.policy).Decide(r)
			if got.Effect != c.want || got.Code != c.code {
				t.Fatalf("got %+v", got)
			}
		})
	}
	// No wall is around a session, so it satisfies only tools that name it.
	r := request("tool.fs.read", `{"path":"a.txt"}`)
	for policy, want := range map[string]Decision{
		permitAll: {Effect: Deny, Code: capabilities.CodeIsolationUnavailable}, permitAll + accept + `;`: {Effect: Allow},
	} {
		r.Given = capabilities.ClassSession
		if got := mustLoad(t, policy).Decide(r); got.Effect != want.Effect || got.Code != want.Code {
			t.Errorf("a session that the tool does not name: %+v", got)
		}
	}
	// A tool of the gateway needs no node's isolation.
	r = request("tool.node.list", `{}`)
	r.Given = ""
	if got := mustLoad(t, permitAll).Decide(r); got.Effect != Allow {
		t.Fatalf("%+v", got)
	}
}

func TestStricter(t *testing.T) {
	effects := []Effect{Deny, Ask, Allow}
	for _, a := range effects {
		for _, b := range effects {
			got := Stricter(Decision{Effect: a, Determining: []string{"a"}}, Decision{Effect: b, Determining: []string{"b"}})
			if got.Effect != min(a, b) {
				t.Errorf("%s, %s: %s", a, b, got.Effect)
			}
			if a == b && fmt.Sprint(got.Determining) != "[a b]" {
				t.Errorf("%s, %s: %v", a, b, got.Determining)
			}
		}
	}
	if (Decision{}).Effect != Deny {
		t.Error("the zero decision must deny")
	}
}

func TestEffectText(t *testing.T) {
	for _, f := range []Effect{Deny, Ask, Allow} {
		text, _ := f.MarshalText()
		var back Effect
		if err := back.UnmarshalText(text); err != nil || back != f {
			t.Errorf("%s: %v %v", text, back, err)
		}
	}
	back := Allow
	if err := back.UnmarshalText([]byte("maybe")); err == nil || back != Deny {
		t.Errorf("unknown text gives %v, %v", back, err)
	}
	if Effect(9).String() != "deny" {
		t.Error("an unknown effect must read as deny")
	}
}

func TestExplain(t *testing.T) {
	e := mustLoad(t, string(DefaultSource()), `@id("never-here") @why("no bank") forbid (principal, action == Action::"tool.browser.navigate", resource) when { context.args.host == "bank.example" };`)
	x := e.Explain(request("tool.browser.navigate", `{"url":"https://BANK.example/x"}`))
	if x.Decision.Effect != Deny || x.Derived["host"] != "bank.example" || x.Derived["port"] != int64(443) {
		t.Fatalf("%+v", x)
	}
	found := map[string]RuleOutcome{}
	for _, r := range x.Rules {
		found[r.ID] = r
	}
	if f := found["never-here"]; !f.Applies || f.Effect != "forbid" || f.Source != "b.cedar" || f.Line != 1 || f.Why != "no bank" {
		t.Errorf("%+v", f)
	}
	if p := found["browser-open"]; !p.Applies || p.Effect != "permit" || p.Line == 0 {
		t.Errorf("%+v", p)
	}
	if s := found["session-browser"]; s.Applies || s.AppliesConsent {
		t.Errorf("%+v", s)
	}
	if _, ok := found["node-list"]; ok {
		t.Error("a rule for another tool is listed")
	}
	if x := e.Explain(request("tool.nope", `{}`)); x.Decision.Code != capabilities.CodeUnknownTool || len(x.Rules) != 0 {
		t.Errorf("%+v", x)
	}
}
