package provider

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// described is the only tool of a provider; p says what it may reach.
func described(t *testing.T, p tools.Provider, tool tools.RemoteTool) Tool {
	t.Helper()
	list, refused := tools.Describe(&p, &tools.ToolManifest{Provider: p.Name, Tools: []tools.RemoteTool{tool}})
	if len(list) != 1 {
		t.Fatalf("%+v", refused)
	}
	return Tool{Described: list[0], State: Draft}
}

// Reading is believed only of what can neither write nor tell.
func TestProposal(t *testing.T) {
	yes := true
	reads := tools.RemoteTool{Name: "look", Description: "Looks.", Input: json.RawMessage(`{"type":"object"}`), ReadOnly: &yes}
	sends := reads
	sends.Keys = []string{"network.egress.https"}
	lies := reads
	lies.Destructive = &yes
	command := tools.Provider{Name: "words", Kind: tools.KindCommand, Manifest: json.RawMessage(`{}`)}
	with := func(change func(*tools.Provider)) tools.Provider { p := command; change(&p); return p }
	for name, c := range map[string]struct {
		provider tools.Provider
		tool     tools.RemoteTool
		want     string
	}{
		"it reads":              {command, reads, EffectAllow},
		"it says nothing":       {command, tools.RemoteTool{Name: "look", Description: "Looks."}, EffectAsk},
		"it may write":          {with(func(p *tools.Provider) { p.Write = []string{"/srv"} }), reads, EffectAsk},
		"it has a network":      {with(func(p *tools.Provider) { p.Net = []string{"example.com"} }), reads, EffectAsk},
		"it is elsewhere":       {tools.Provider{Name: "words", Kind: tools.KindMCP, URL: "https://example.com/mcp"}, reads, EffectAsk},
		"it declares a network": {command, sends, EffectAsk},
		"it contradicts itself": {command, lies, EffectDeny},
	} {
		tool := described(t, c.provider, c.tool)
		if got := tool.Proposal(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// An approval of a tool that changed widens nothing that its choice does not name.
func TestAnotherApprovalWidensNothing(t *testing.T) {
	yes := true
	command := tools.Provider{Name: "words", Kind: tools.KindCommand, Manifest: json.RawMessage(`{}`)}
	reads := described(t, command, tools.RemoteTool{Name: "look", Description: "Looks.", ReadOnly: &yes})
	writes := described(t, command, tools.RemoteTool{Name: "put", Description: "Puts."})
	if reads.Proposal() != EffectAllow || writes.Proposal() != EffectAsk {
		t.Fatal("the test is broken")
	}
	anna := []capabilities.PrincipalID{"anna"}
	type was struct {
		state  State
		effect string
		canary []capabilities.PrincipalID
	}
	for name, c := range map[string]struct {
		tool   Tool
		before was
		choice Choice
		want   was
	}{
		"a new one":                    {reads, was{Draft, "", nil}, Choice{}, was{Active, EffectAllow, nil}},
		"a new one that writes":        {writes, was{Draft, "", nil}, Choice{}, was{Active, EffectAsk, nil}},
		"it was asked about":           {reads, was{Active, EffectAsk, nil}, Choice{}, was{Active, EffectAsk, nil}},
		"it was denied":                {reads, was{Active, EffectDeny, nil}, Choice{}, was{Active, EffectDeny, nil}},
		"it was allowed, and writes":   {writes, was{Active, EffectAllow, nil}, Choice{}, was{Active, EffectAsk, nil}},
		"it was allowed":               {reads, was{Active, EffectAllow, nil}, Choice{}, was{Active, EffectAllow, nil}},
		"it was denied, a word for it": {reads, was{Active, EffectDeny, nil}, Choice{Effect: EffectAllow}, was{Active, EffectAllow, nil}},
		"a canary":                     {reads, was{Canary, EffectAllow, anna}, Choice{}, was{Canary, EffectAllow, anna}},
		"a canary that is called":      {reads, was{Canary, EffectAllow, anna}, Choice{Effect: EffectAsk}, was{Canary, EffectAsk, anna}},
		"a canary for all":             {reads, was{Canary, EffectAllow, anna}, Choice{State: Active}, was{Active, EffectAllow, nil}},
		"restricted":                   {reads, was{Restricted, EffectAllow, nil}, Choice{}, was{Restricted, EffectAsk, nil}},
		"restricted no more":           {reads, was{Restricted, EffectAllow, nil}, Choice{State: Active}, was{Active, EffectAsk, nil}},
		"deprecated":                   {reads, was{Deprecated, EffectAllow, nil}, Choice{}, was{Deprecated, EffectAllow, nil}},
		"restricted, and again":        {reads, was{Restricted, EffectAllow, nil}, Choice{State: Restricted}, was{Restricted, EffectAsk, nil}},
	} {
		tool := c.tool
		tool.State, tool.Effect, tool.Canary, tool.Approved = c.before.state, c.before.effect, c.before.canary, "sha256:before"
		if tool.State.Callable() {
			tool.review() // its words are others now
		}
		if err := tool.choose(c.choice); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tool.State != c.want.state || tool.Effect != c.want.effect || !slices.Equal(tool.Canary, c.want.canary) {
			t.Errorf("%s: %s, %s for %v", name, tool.State, tool.Effect, tool.Canary)
		}
	}

	// Without a change: a restricted tool asks until a choice names another state.
	tool := reads
	tool.State, tool.Effect = Restricted, EffectAllow
	if err := tool.choose(Choice{Effect: EffectAllow}); err != nil || tool.State != Restricted {
		t.Errorf("%s %v", tool.State, err)
	}
}
