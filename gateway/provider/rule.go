package provider

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// The effects of an approval: agents may call a tool, a person is asked, or neither.
const (
	EffectAllow = "allow"
	EffectAsk   = "ask"
	EffectDeny  = "deny"
)

var effects = []string{EffectAllow, EffectAsk, EffectDeny}

// stricter returns the stricter of two effects; "" is none.
func stricter(a, b string) string {
	if slices.Index(effects, b) > slices.Index(effects, a) {
		return b
	}
	return a
}

// Proposal is what an approval of a tool that says nothing else would let agents do, from its
// annotations: a tool that says it only reads is allowed, all others are asked about. An
// approval from before is never widened. Its reach has the last word: reading
// is believed only where it may write nothing and tell nobody.
func (t *Tool) Proposal() string {
	a := t.Annotations
	reach := &t.Descriptor.Manifest
	if a.ReadOnly && !a.Destructive && !slices.Contains(reach.Data, "write.workspace") && len(reach.Network) == 0 && len(t.Flags) == 0 {
		return stricter(EffectAllow, t.Effect)
	}
	return stricter(EffectAsk, t.Effect)
}

// Agents is what its approval lets agents do. Of a restricted tool a person is always asked.
func (t *Tool) Agents() string {
	if t.State == Restricted {
		return stricter(t.Effect, EffectAsk)
	}
	return t.Effect
}

// RuleFile is the name of the policy file that an approval of a provider writes.
func RuleFile(provider string) string { return "provider-" + provider + ".cedar" }

// Rules is the policy that lets agents call a provider's tools as they were approved; "" for
// none. Lifecycle and effects compile to it: there is one evaluator.
func (p *Provider) Rules() string {
	return p.rules(func(capabilities.ToolID, string) bool { return true })
}

// common is the part of Rules that before has, too: it allows nothing that was not allowed.
func (p *Provider) common(before *Provider) string {
	were := map[capabilities.ToolID]string{}
	before.rules(func(id capabilities.ToolID, rule string) bool { were[id] = rule; return true })
	return p.rules(func(id capabilities.ToolID, rule string) bool { return were[id] == rule })
}

func (p *Provider) rules(takes func(id capabilities.ToolID, rule string) bool) string {
	var all strings.Builder
	for i := range p.Tools {
		t := &p.Tools[i]
		if !t.Callable() || t.Effect == EffectDeny {
			continue
		}
		if rule := t.rule(); takes(t.Described.Tool, rule) {
			all.WriteString(rule)
		}
	}
	if all.Len() == 0 {
		return ""
	}
	return "// The tools of the provider " + p.Name + ", as they were approved. An approval writes this file anew;\n// rules of your own go into another one.\n" + all.String()
}

func (t *Tool) rule() string {
	var b strings.Builder
	id := t.Described.Tool
	fmt.Fprintf(&b, "\n@id(%s)\npermit (principal, action == Action::%s, resource)", strconv.Quote(ruleID(id)), strconv.Quote(string(id)))
	var when []string
	if t.Effect == EffectAsk || t.State == Restricted {
		when = append(when, "context.consent")
	}
	if t.State == Canary {
		who := make([]string, 0, 2*len(t.Canary))
		for _, name := range t.Canary {
			who = append(who, "principal == Agent::"+strconv.Quote(string(name)), "principal == User::"+strconv.Quote(string(name)))
		}
		when = append(when, "("+strings.Join(append(who, "false"), " || ")+")")
	}
	if len(when) > 0 {
		b.WriteString("\nwhen { " + strings.Join(when, " && ") + " }")
	}
	b.WriteString(";\n")
	return b.String()
}

func ruleID(id capabilities.ToolID) string {
	return "provider-" + strings.ReplaceAll(strings.TrimPrefix(string(id), "tool."), ".", "-")
}
