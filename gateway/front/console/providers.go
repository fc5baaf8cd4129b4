package console

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// maxDifferences is how many tools one page compares with what was approved of them.
const maxDifferences = 50

type providersPage struct {
	*visit
	Needy      []shownProvider // those that a person has to see to
	Providers  []shownProvider
	Satellites []shownSatellite
	SignIns    []shownSignIn
	Wanted     wantedSignIn
}

// wantedSignIn is what a link of 'provider sign-in' fills into the form. The address is the one on
// the provider's record and never the link's: a link could lead a person anywhere.
type wantedSignIn struct{ Name, Server, Client string }

// shownProvider is a provider with its health, its tools, and what waits for a person.
type shownProvider struct {
	*visit
	api.Provider
	Tools []shownTool
	Waits int
	// Flagged says that a tool has something to be looked at.
	Flagged bool
	On      string // the device that hosts it, or its satellite, by label and ID; empty: the gateway
}

// kindNames are the kinds of providers in words.
var kindNames = map[string]string{
	"command": "program", "mcp": "MCP server", "openapi": "HTTP API (OpenAPI)", "macro": "macro",
	"sub-agent": "sub-agent", "satellite": "satellite",
}

// CommandLine is the program with its arguments, as a person would type it.
func (p shownProvider) CommandLine() string {
	words := make([]string, len(p.Command))
	for i, word := range p.Command {
		if words[i] = word; word == "" || strings.ContainsAny(word, " \t\n'\"\\$`*?;&|<>(){}[]~#") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// manyTools is how many tools a provider has before they stand folded, unless one waits.
const manyTools = 5

// Folded reports whether its tools stand behind their number: there are many, and none waits for
// a person or changed.
func (p shownProvider) Folded() bool { return p.Waits == 0 && len(p.Tools) > manyTools }

// Needs says why a person has to see to it, in a few words; "" for nothing.
func (p shownProvider) Needs() string {
	switch {
	case p.Waits > 0:
		return count(p.Waits, "tool", "tools") + " to look at"
	case !p.Ready:
		return p.Health().Word
	}
	return ""
}

// KindName is what it is, in words.
func (p shownProvider) KindName() string { return orElse(kindNames[p.Kind], p.Kind) }

type shownTool struct {
	api.ProviderTool
	Waits  bool
	Effect choice
	Move   choice // the states to which it can be moved; none for a retired one
	Diff   []diffLine
	Unseen bool
}

// Health is whether its host can carry its calls out now, in a word.
func (p shownProvider) Health() struct{ Word, Mood string } {
	switch {
	case p.Ready:
		return struct{ Word, Mood string }{"ready", "good"}
	case p.Reason == capabilities.ReasonNodeOffline:
		return struct{ Word, Mood string }{"away", "busy"}
	case p.Reason == capabilities.ReasonNeedsSignIn:
		return struct{ Word, Mood string }{"needs sign-in", "bad"}
	case p.Reason == capabilities.ReasonBackendFailing:
		return struct{ Word, Mood string }{"failing", "bad"}
	case p.Reason == capabilities.ReasonBackendMissing:
		return struct{ Word, Mood string }{"lacks a tool", "bad"}
	case p.Reason == capabilities.ReasonNotAdvertised:
		return struct{ Word, Mood string }{"not offered", "busy"}
	}
	return struct{ Word, Mood string }{strings.ReplaceAll(string(p.Reason), "_", " "), "bad"}
}

// moves are the states in the words of a choice.
var moves = map[string]string{
	"canary":     "canary: named principals",
	"active":     "active",
	"restricted": "restricted: always asks",
	"deprecated": "deprecated: it goes",
	"retired":    "retired: for good",
}

type diffLine struct{ Sign, Text string }

// providers shows what backs tools that are not built in, and what of it a person has to look at.
func (c *Console) providers(v *visit) { v.showProviders(nil) }

func (v *visit) showProviders(problem error) {
	var list api.ProviderList
	if err := v.get(v1("providers"), &list); err != nil {
		v.show(page{name: "problem", title: "Providers", here: "/console/providers", fault: err})
		return
	}
	shown, compared := providersPage{visit: v}, 0
	for _, p := range list.Providers {
		one := shownProvider{visit: v, Provider: p}
		for i, t := range p.Tools {
			tool := shownTool{ProviderTool: t, Waits: t.State == "draft" || t.State == "review"}
			if tool.Waits {
				one.Waits++
				tool.Effect = choose(fmt.Sprintf("p-%s-%d", p.Name, i), "effect:"+string(t.Tool), string(t.Tool), t.Proposal,
					"allow", "allow", "ask", "ask a person", "deny", "deny")
			}
			var to []string
			for _, state := range t.Next {
				to = append(to, state, moves[state])
			}
			if len(to) > 0 {
				tool.Move = choose(fmt.Sprintf("m-%s-%d", p.Name, i), "state", "State", "restricted", to...)
			}
			if tool.Waits && t.Approved != "" && compared < maxDifferences {
				compared++
				var d api.ToolDiff
				if v.get(v1("tools", string(t.Tool), "diff"), &d) == nil {
					tool.Unseen = d.Unseen
					for _, line := range d.Lines {
						if line == "" { // unchanged lines are left out
							line = "  …"
						}
						tool.Diff = append(tool.Diff, diffLine{line[:1], line[2:]})
					}
				}
			}
			one.Tools, one.Flagged = append(one.Tools, tool), one.Flagged || len(t.Flags) > 0
		}
		if q := v.r.URL.Query(); q.Get("sign_in") == p.Name && p.Kind == "mcp" && p.URL != "" {
			shown.Wanted = wantedSignIn{signInOf(&p), p.URL, capabilities.Clip(capabilities.Printable(q.Get("client")), 256)}
		}
		shown.Providers = append(shown.Providers, one)
	}
	for _, p := range shown.Providers {
		if p.Needs() != "" && len(shown.Providers) > 1 {
			shown.Needy = append(shown.Needy, p)
		}
	}
	var err error
	if shown.Satellites, err = v.satellites(); err != nil && problem == nil {
		problem = err
	}
	v.nameHosts(&shown)
	var signedIn api.SignInList
	if v.get(v1("sign-ins"), &signedIn) == nil {
		for _, one := range signedIn.SignIns {
			shown.SignIns = append(shown.SignIns, shownSignIn{v, one})
		}
	}
	v.show(page{name: "providers", title: "Providers", here: "/console/providers", live: "packet", fault: problem, data: shown})
}

// signInOf is the sign-in whose token a provider gets, or the one that its own name would be.
func signInOf(p *api.Provider) string {
	for _, e := range p.Env {
		if _, name, ok := strings.Cut(e, "=sign-in/"); ok {
			return name
		}
	}
	return p.Name
}

// nameHosts says where each provider is by the label of its device, or by the machine of its
// satellite.
func (v *visit) nameHosts(shown *providersPage) {
	labels := map[capabilities.NodeID]string{}
	var list api.NodeList
	if v.get(v1("nodes"), &list) == nil {
		for _, n := range list.Nodes {
			labels[n.ID] = n.Label
		}
	}
	for _, s := range shown.Satellites {
		labels[s.ID] = s.Host
	}
	for i := range shown.Providers {
		p := &shown.Providers[i]
		if p.On = string(p.Host); labels[p.Host] != "" {
			p.On = labels[p.Host] + " (" + p.On + ")"
		}
	}
}

// changeProvider approves what waits of a provider, as the form says it of each tool, moves one
// tool to another state, has the provider checked, or removes it.
func (c *Console) changeProvider(v *visit) {
	f, name := v.r.PostForm, v.r.PathValue("provider")
	var err error
	switch f.Get("do") {
	case "approve":
		a := api.ApproveProvider{ManifestHash: f.Get("manifest"), Tools: map[capabilities.ToolID]api.ToolChoice{}}
		for field := range f {
			if id, ok := strings.CutPrefix(field, "effect:"); ok {
				a.Tools[capabilities.ToolID(id)] = api.ToolChoice{Effect: f.Get(field)}
			}
		}
		err = v.ask(http.MethodPost, v1("providers", name, "approve"), a, nil)
	case "move":
		d := api.ToolDecision{State: f.Get("state"), Hash: f.Get("hash")}
		for who := range strings.FieldsFuncSeq(f.Get("canary"), func(r rune) bool { return r == ',' || r == ' ' }) {
			if d.State == "canary" {
				d.Canary = append(d.Canary, capabilities.PrincipalID(who))
			}
		}
		err = v.ask(http.MethodPost, v1("tools", f.Get("tool"), "state"), d, nil)
	case "check":
		err = v.ask(http.MethodPost, v1("providers", name, "check"), map[string]any{}, nil)
	case "remove":
		err = v.ask(http.MethodDelete, v1("providers", name), nil, nil)
	default:
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change")
	}
	if err != nil {
		v.showProviders(err)
		return
	}
	v.seeOther("/console/providers", "changed")
}
