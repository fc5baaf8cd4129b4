package provider

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
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
// annotations: a tool that says it only reads is allowed, one that says it reads and destroys is
// denied, all others are asked about. An approval from before is never widened. Its reach has the
// last word: reading is believed only where it may write nothing and tell nobody.
func (t *Tool) Proposal() string {
	a := t.Annotations
	reach := &t.Descriptor.Manifest
	if slices.Contains(t.Flags, tools.FlagContradicts) {
		return EffectDeny
	}
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
// none. Lifecycle and effects compile to it: there is one evaluator. Tools of one effect share a
// rule, which names each of them: policy takes fewer rules than there are tools.
func (p *Provider) Rules() string {
	return p.rules(func(*Tool) bool { return true })
}

// common is the part of Rules that before has, too: it allows nothing that was not allowed.
func (p *Provider) common(before *Provider) string {
	were := map[capabilities.ToolID]effect{}
	for i := range before.Tools {
		if t := &before.Tools[i]; t.permitted() {
			were[t.Described.Tool] = t.effect()
		}
	}
	return p.rules(func(t *Tool) bool {
		was, ok := were[t.Described.Tool]
		return ok && was == t.effect()
	})
}

func (p *Provider) rules(takes func(*Tool) bool) string {
	named := map[effect][]capabilities.ToolID{}
	var order []effect // as the tools come
	for i := range p.Tools {
		t := &p.Tools[i]
		if !t.permitted() || !takes(t) {
			continue
		}
		e := t.effect()
		if named[e] == nil {
			order = append(order, e)
		}
		named[e] = append(named[e], t.Described.Tool)
	}
	if len(order) == 0 {
		return ""
	}
	slices.SortStableFunc(order, func(a, b effect) int { return cmp.Compare(a.rank(), b.rank()) })
	var all strings.Builder
	all.WriteString("// The tools of the provider " + p.Name +
		", as they were approved. An approval writes this file anew;\n// rules of your own go into another one.\n")
	canaries := 0
	for _, e := range order {
		name := e.name()
		if e.canary != "" {
			if canaries++; canaries > 1 {
				name += "-" + strconv.Itoa(canaries)
			}
		}
		e.write(&all, "provider-"+p.Name+"."+name, named[e])
	}
	return all.String()
}

// permitted reports whether an approval lets anybody call the tool.
func (t *Tool) permitted() bool { return t.Callable() && t.Effect != EffectDeny }

// effect is what Cedar says of a tool that is permitted: tools of the same share a rule.
type effect struct {
	asks   bool
	canary string // the condition that names who may call it; "" for everybody
}

func (t *Tool) effect() effect {
	e := effect{asks: t.Agents() == EffectAsk}
	if t.State == Canary {
		who := make([]string, 0, 2*len(t.Canary)+1)
		for _, name := range t.Canary {
			who = append(who, "principal == Agent::"+strconv.Quote(string(name)), "principal == User::"+strconv.Quote(string(name)))
		}
		e.canary = "(" + strings.Join(append(who, "false"), " || ") + ")"
	}
	return e
}

// rank is the order of rules in the file.
func (e effect) rank() int {
	switch {
	case e.canary != "":
		return 2
	case e.asks:
		return 1
	}
	return 0
}

func (e effect) name() string {
	switch {
	case e.canary != "":
		return "canary"
	case e.asks:
		return EffectAsk
	}
	return EffectAllow
}

// write adds the rule of some tools. Its ID has a dot, which those of a rule for each tool had
// not: files from before stay in force beside it until the next approval of their provider.
func (e effect) write(b *strings.Builder, id string, tools []capabilities.ToolID) {
	fmt.Fprintf(b, "\n@id(%s)\npermit (principal, action in [\n", strconv.Quote(id))
	for i, tool := range tools {
		b.WriteString("  Action::" + strconv.Quote(string(tool)))
		if i+1 < len(tools) {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("], resource)")
	var when []string
	if e.asks {
		when = append(when, "context.consent")
	}
	if e.canary != "" {
		when = append(when, e.canary)
	}
	if len(when) > 0 {
		b.WriteString("\nwhen { " + strings.Join(when, " && ") + " }")
	}
	b.WriteString(";\n")
}
