package provider

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// large is a provider of as many tools as one may have, with the longest names, all approved.
func large(t *testing.T, name string) Provider {
	t.Helper()
	p := Provider{Provider: tools.Provider{Name: name, Kind: tools.KindMCP, URL: "https://example.com/mcp"}}
	p.Manifest.Provider = name
	for i := range tools.MaxTools {
		p.Manifest.Tools = append(p.Manifest.Tools, tools.RemoteTool{Name: fmt.Sprintf("%s%d", strings.Repeat("long", 20), i), Description: "Does."})
	}
	p.describe(nil)
	if len(p.Tools) != tools.MaxTools {
		t.Fatalf("%d tools, refused %+v", len(p.Tools), p.Refused[:1])
	}
	next, err := p.chosen(p.Hash, nil)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// offered is what rules about providers can name.
type offered []*Provider

func (o offered) All() (all []*catalog.Descriptor) {
	for _, p := range o {
		for i := range p.Tools {
			all = append(all, p.Tools[i].Descriptor)
		}
	}
	return all
}

// decided is what policy says to a call by anna of each of some tools.
func decided(t *testing.T, p *Provider, rules string) map[capabilities.ToolID]policy.Effect {
	t.Helper()
	e, err := policy.Load([]policy.Source{{Name: RuleFile(p.Name), Data: []byte(rules)}}, offered{p})
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, rules)
	}
	all := map[capabilities.ToolID]policy.Effect{}
	for i := range p.Tools {
		id := p.Tools[i].Described.Tool
		all[id] = e.Decide(policy.Request{Principal: "anna", Role: "agent", Tool: id, Node: policy.Node{ID: "n1"}, Args: []byte(`{}`), Given: "t3"}).Effect
	}
	return all
}

// The largest provider is approved with one rule for each effect, which fits into one file, and a
// choice about one tool moves that one.
func TestRulesOfALargeProvider(t *testing.T) {
	p := large(t, "provider-with-the-longest-name-x")
	if rules := p.Rules(); strings.Count(rules, "@id") != 1 || len(rules) > policy.MaxSourceBytes {
		t.Fatalf("%d rules, %d bytes", strings.Count(rules, "@id"), len(rules))
	}
	choices := map[capabilities.ToolID]Choice{}
	for i := range 4 {
		id := p.Tools[10*i].Described.Tool
		choices[id] = []Choice{{Effect: EffectAllow}, {Effect: EffectDeny}, {State: Canary, Canary: []capabilities.PrincipalID{"anna"}, Effect: EffectAllow}, {State: Canary, Canary: []capabilities.PrincipalID{"bob"}}}[i]
	}
	next, err := p.chosen(p.Hash, choices)
	if err != nil {
		t.Fatal(err)
	}
	rules := next.Rules()
	for _, id := range []string{".allow", ".ask", ".canary", ".canary-2"} {
		if !strings.Contains(rules, `@id("provider-provider-with-the-longest-name-x`+id+`")`) {
			t.Errorf("no rule %s", id)
		}
	}
	effects := decided(t, &next, rules)
	for i := range next.Tools {
		want := policy.Ask
		if i%10 == 0 && i < 40 {
			want = []policy.Effect{policy.Allow, policy.Deny, policy.Allow, policy.Deny}[i/10]
		}
		if got := effects[next.Tools[i].Described.Tool]; got != want {
			t.Errorf("%s: %s, want %s", next.Tools[i].Described.Tool, got, want)
		}
	}

	// Before it is widened, only what was so before is in force.
	common := decided(t, &next, next.common(&p))
	for i := range next.Tools {
		want := policy.Ask
		if i%10 == 0 && i < 40 {
			want = policy.Deny
		}
		if got := common[next.Tools[i].Described.Tool]; got != want {
			t.Errorf("%s: %s in common, want %s", next.Tools[i].Described.Tool, got, want)
		}
	}
}

// A change of many tools fits into packets, and each tool is in one of them; a change of one tool
// is one packet.
func TestPacketsOfALargeProvider(t *testing.T) {
	p := large(t, "large")
	seen := map[capabilities.ToolID]bool{}
	parts := p.packets(&Provider{})
	for i, c := range parts {
		text, err := canonical.Marshal(c)
		if err != nil || len(text) > 16<<10 {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		if c.Part != i+1 || c.Parts != len(parts) || c.Of != len(p.Tools) {
			t.Errorf("%d of %d: %+v", c.Part, c.Parts, c.Of)
		}
		for _, tool := range c.Tools {
			seen[tool.Tool] = true
		}
	}
	if len(seen) != len(p.Tools) {
		t.Errorf("%d tools", len(seen))
	}
	one, err := p.chosen(p.Hash, map[capabilities.ToolID]Choice{p.Tools[7].Described.Tool: {State: Restricted}})
	if err != nil {
		t.Fatal(err)
	}
	gone := one.Tools[9].Described.Tool
	one.Tools = append(one.Tools[:9:9], one.Tools[10:]...)
	parts = one.packets(&p)
	if text, _ := json.Marshal(parts); len(parts) != 1 || len(parts[0].Tools) != 1 || parts[0].Tools[0].State != Restricted || len(parts[0].Gone) != 1 || parts[0].Gone[0] != gone {
		t.Errorf("%.2000s", text)
	}
}
