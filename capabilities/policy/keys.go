package policy

import (
	"fmt"
	"slices"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/handrail-dev/handrail/capabilities"
)

// The capability keys are actions of their own: a forbid that names one takes it
// out of the effective grants of calls that are otherwise permitted (S1-34), for
// good or "unless { context.consent }", which makes it an escalation.
const (
	groupAllKeys     = "keys"
	groupKeysPrefix  = "keys:" // keys:network
	actionKeysPrefix = "key:"  // key:network.browser.session
)

func keyAction(key string) cedar.EntityUID {
	return cedar.NewEntityUID(typeAction, cedar.String(actionKeysPrefix+key))
}

func keyGroups(key string) []cedar.EntityUID {
	return []cedar.EntityUID{
		cedar.NewEntityUID(typeAction, groupAllKeys),
		cedar.NewEntityUID(typeAction, cedar.String(groupKeysPrefix+category(key))),
	}
}

// declaredKeys are the keys that any tool declares, or has on some node, sorted.
func declaredKeys(tools map[capabilities.ToolID]*tool) []string {
	seen := map[string]bool{}
	for _, t := range tools {
		for _, k := range t.declared {
			seen[k] = true
		}
	}
	keys := make([]string, 0, len(seen))
	for k := range seen {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (v *vocabulary) addKeys() {
	for _, k := range v.keys {
		uid := keyAction(k)
		v.entities[uid] = cedar.Entity{UID: uid, Parents: cedar.NewEntityUIDSet(keyGroups(k)...)}
	}
}

func writeKeys(b *strings.Builder, keys []string) {
	fmt.Fprintf(b, "\naction %q;\n", groupAllKeys)
	for _, c := range categories {
		fmt.Fprintf(b, "action %q;\n", groupKeysPrefix+c)
	}
	for _, k := range keys {
		fmt.Fprintf(b, "\naction %q in [%q, %q] appliesTo {\n  principal: [Agent, User],\n  resource: [Node, Provider],\n",
			actionKeysPrefix+k, groupAllKeys, groupKeysPrefix+category(k))
		writeContext(b, &noArgs)
		b.WriteString("};\n")
	}
}

// namesKey reports whether a rule's scope names keys.
func namesKey(scope ast.IsActionScopeNode) bool {
	is := func(uid cedar.EntityUID) bool {
		id := string(uid.ID)
		return id == groupAllKeys || strings.HasPrefix(id, groupKeysPrefix) || strings.HasPrefix(id, actionKeysPrefix)
	}
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return is(s.Entity)
	case ast.ScopeTypeIn:
		return is(s.Entity)
	case ast.ScopeTypeInSet:
		return slices.ContainsFunc(s.Entities, is)
	}
	return false
}

// indexKeys finds the rules of each key. A rule about everything is one about
// calls, not about keys.
func (e *Engine) indexKeys(s *scopeIndex) {
	for _, k := range e.keys {
		if rules := s.covering(false, keyAction(k), keyGroups(k)...); len(rules) > 0 {
			e.byKey[k] = partitionOf(rules)
		}
	}
}

// reduce goes through the declared keys of a call that is not denied: a key is
// granted unless a forbid takes it, withheld if one does, and escalated if it would
// not with a person's consent. A tool that cannot work without a withheld key is
// denied.
func (e *Engine) reduce(of *Profile, env *environment, d Decision, evaluate evaluator) Decision {
	env.withoutArgs()
	for _, key := range of.Keys {
		p := e.byKey[key]
		if p == nil {
			continue
		}
		env.request.Action = keyAction(key)
		d.LogOnly = e.observe(p, env, d.LogOnly)
		first := evaluate(p, env, false)
		if len(first.forbids) == 0 {
			continue
		}
		second := first
		if p.consults.consent {
			second = evaluate(p, env, true)
		}
		d.Errors = merge(d.Errors, merge(first.errors, second.errors))
		d.Determining = merge(d.Determining, first.forbids)
		switch {
		case len(second.forbids) == 0 && !first.failed:
			d.Escalated = append(d.Escalated, key)
		case slices.Contains(of.Optional, key):
			d.Withheld = append(d.Withheld, key)
		default:
			return Decision{
				Effect: Deny, Code: capabilities.CodeDeniedByPolicy, Determining: merge(second.forbids, nil), Errors: d.Errors, LogOnly: d.LogOnly,
				Snapshot: d.Snapshot, Reason: fmt.Sprintf("Policy withholds %s, and the tool does not work without it.", key),
			}
		}
	}
	if len(d.Escalated) > 0 && d.Effect == Allow {
		d.Effect = Ask
		d.Reason = "Policy grants " + strings.Join(d.Escalated, ", ") + " only once a person confirms it."
	}
	return d
}
