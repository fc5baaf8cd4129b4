package policy

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// S1-34: policy reduces what is declared key by key.
func TestKeysAreWithheldAndEscalated(t *testing.T) {
	const net, state = "network.browser.session", "ui.session.persist_state"
	for _, c := range []struct {
		name, rules         string
		consented           bool
		want                Effect
		withheld, escalated string
	}{
		{name: "no rule about keys", want: Allow},
		{name: "a key the tool works without", rules: `@id("k") forbid (principal, action == Action::"key:` + state + `", resource);`, want: Allow, withheld: state},
		{name: "a group of keys", rules: `@id("k") forbid (principal, action in Action::"keys:ui", resource);`, want: Allow, withheld: state},
		{name: "a key it needs", rules: `@id("k") forbid (principal, action == Action::"key:` + net + `", resource);`, want: Deny},
		{name: "all keys", rules: `@id("k") forbid (principal, action in Action::"keys", resource);`, want: Deny},
		{name: "unless a person confirms", rules: `@id("k") forbid (principal, action == Action::"key:` + net + `", resource) unless { context.consent };`, want: Ask, escalated: net},
		{name: "a person confirmed", rules: `@id("k") forbid (principal, action == Action::"key:` + net + `", resource) unless { context.consent };`, consented: true, want: Allow, escalated: net},
		{name: "not here", rules: `@id("k") forbid (principal, action in Action::"keys", resource) when { resource is Node && resource.labels.contains("nowhere") };`, want: Allow},
		{name: "it cannot be evaluated", rules: `@id("k") forbid (principal, action == Action::"key:` + state + `", resource) when { context.time + 9223372036854775807 > 0 };`, want: Allow, withheld: state},
		{name: "by role", rules: `@id("k") forbid (principal in Role::"agent", action == Action::"key:` + state + `", resource);`, want: Allow, withheld: state},
		{name: "only watched", rules: `@id("k") @mode("log_only") forbid (principal, action in Action::"keys", resource);`, want: Allow},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustLoad(t, permitAll+c.rules)
			r := request("tool.browser.launch", `{}`)
			r.Role, r.Consented = "agent", c.consented
			d := e.Decide(r)
			if d.Effect != c.want || strings.Join(d.Withheld, " ") != c.withheld || strings.Join(d.Escalated, " ") != c.escalated {
				t.Fatalf("%+v", d)
			}
			if c.want == Deny && d.Code != capabilities.CodeDeniedByPolicy {
				t.Fatalf("%+v", d)
			}
			if p := e.Possible(r); p.Effect < d.Effect {
				t.Fatalf("possible %s, decided %s", p.Effect, d.Effect)
			}
		})
	}
	if _, err := Load([]Source{{Name: "a.cedar", Data: []byte(`permit (principal, action in Action::"keys", resource);`)}}, testCatalog(t)); err == nil {
		t.Fatal("a permit for a key loads")
	}
}

func TestEntities(t *testing.T) {
	for _, c := range []struct {
		condition string
		want      Effect
	}{
		{`principal in Role::"agent"`, Allow}, {`principal in Role::"admin"`, Deny}, {`principal in Lane::"lane"`, Allow}, {`principal in Lane::"other"`, Deny},
		{`context.taint.contains("browser")`, Allow}, {`context.taint.isEmpty()`, Deny},
		{`resource is Node && resource.labels.contains("office")`, Allow},
	} {
		r := request("tool.browser.navigate", `{"url":"https://a.example/"}`)
		r.Role, r.Taint = "agent", []string{"browser"}
		if d := mustLoad(t, "permit (principal, action, resource) when { "+c.condition+" };").Decide(r); d.Effect != c.want {
			t.Errorf("%s: %+v", c.condition, d)
		}
	}
	for scope, want := range map[string]Effect{`action in Action::"effect"`: Allow, `action in Action::"read"`: Deny} {
		if d := mustLoad(t, "permit (principal, "+scope+", resource);").Decide(request("tool.browser.navigate", `{"url":"https://a.example/"}`)); d.Effect != want {
			t.Errorf("%s: %+v", scope, d)
		}
	}
	r := request("tool.browser.upload-file", `{"paths":["/srv/out/a/b.txt","/srv/out/c.txt"]}`)
	if d := mustLoad(t, `permit (principal, action == Action::"tool.browser.upload-file", resource) when { context.args.root like "/srv/out/*" };`).Decide(r); d.Effect != Allow {
		t.Errorf("%+v", d)
	}
	r = request("tool.desktop.act", `{"target":"app:gedit >> role:button","action":{"kind":"click"}}`)
	r.Given = capabilities.ClassSession
	if d := mustLoad(t, `permit (principal, action == Action::"tool.desktop.act", resource) when { context.args.application == "gedit" };`).Decide(r); d.Effect != Ask {
		t.Errorf("%+v", d)
	}
}
