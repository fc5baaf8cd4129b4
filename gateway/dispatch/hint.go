package dispatch

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/route"
)

// placeError makes a refusal by policy say what policy said, and reports whether it is one:
// the node was named and is denied, or every node that could do it is.
func (n *routed) placeError(err *capabilities.Error) (refusal *capabilities.Error, byPolicy bool) {
	err = n.nameRules(err)
	denied := err.Code == capabilities.CodeNodeDeniedByPolicy
	ambiguity, _ := err.Details.(route.Ambiguity)
	// Nodes are there and ready, and every one of them is denied this call.
	onlyPolicy := ambiguity.Detail == route.DetailNone && len(ambiguity.Candidates) > 0
	for _, at := range ambiguity.Candidates {
		onlyPolicy = onlyPolicy && at.Code == capabilities.CodeNodeDeniedByPolicy
	}
	if !denied && !onlyPolicy {
		return err, false
	}
	out := *err
	if denied {
		out.Message = "Policy denies this tool on that node: " + n.last.Reason
	} else if len(ambiguity.Candidates) == 1 {
		out.Message = "Policy denies this call: " + n.last.Reason
	} else {
		out.Message = "Policy denies this call on every node that could do it: " + n.last.Reason
	}
	if hint, see := n.ruleHint(&n.last); hint != "" {
		out.Hint, out.Action = hint, see
	}
	if n.last.Code == capabilities.CodeIsolationUnavailable {
		out.Code, out.Message = capabilities.CodeIsolationUnavailable, n.last.Reason
	} else if hint := closedAddress(n.desc, n.args.Canonical); hint != "" && len(n.last.Determining) == 0 {
		out.Hint, out.Action = hint, capabilities.Action{}
	}
	return &out, true
}

// nameRules puts into a refused selection how to see the rules in the way, for callers
// who may see them.
func (n *routed) nameRules(err *capabilities.Error) *capabilities.Error {
	if !n.req.Caller.readsPolicy(n.engine) {
		return err
	}
	out := *err
	switch about := err.Details.(type) {
	case route.Candidate:
		if about.Reason == capabilities.ReasonHiddenByPolicy {
			about.Fix, about.Action = ruleFix(n.desc.Tool, about.Node)
			out.Details, out.Hint, out.Action = about, about.Fix, about.Action
		}
	case route.Ambiguity:
		for i, at := range about.Candidates {
			if at.Reason == capabilities.ReasonHiddenByPolicy {
				at := &about.Candidates[i] // the list is this refusal's own
				at.Fix, at.Action = ruleFix(n.desc.Tool, at.Node)
			}
		}
	}
	return &out
}

// ruleFix says how to see the rule that denies a tool on a node.
func ruleFix(tool capabilities.ToolID, node capabilities.NodeID) (string, capabilities.Action) {
	return "A rule of the policy denies it.", capabilities.Action{Key: capabilities.ActionExplainPolicy, Tool: tool, Node: node}
}

// policyError is a refusal by a verdict.
func (n *routed) policyError(v *policy.Decision) *capabilities.Error {
	if limits := n.limited(n.policyRequest(n.node), policy.Ask); limits != nil {
		return limits
	}
	e := capabilities.Errorf(v.Code, "%s", v.Reason)
	e.Hint, e.Action = n.ruleHint(v)
	return e
}

// ruleHint tells callers who may read the policy which rule denies the call, and how to look
// at it: nobody is told to ask the admin who is the admin. Nothing for others.
func (n *routed) ruleHint(v *policy.Decision) (string, capabilities.Action) {
	if !n.req.Caller.readsPolicy(n.engine) {
		return "", capabilities.Action{}
	}
	see := capabilities.Action{Key: capabilities.ActionExplainPolicy, Tool: n.req.Tool}
	switch rules := v.Determining; len(rules) {
	case 0:
		return "No rule permits it.", see
	case 1:
		return "The rule is " + rules[0] + ".", see
	default:
		return "The rules are " + strings.Join(rules[:min(len(rules), maxRulesNamed)], ", ") + ".", see
	}
}

// unasked has the refusal of a call that nobody could be asked about name the rule that
// asks, for callers who may see it.
func (n *routed) unasked(e *capabilities.Error) *capabilities.Error {
	if e.Code == capabilities.CodeConsentUnavailable && e.Hint == "" && n.req.Caller.readsPolicy(n.engine) {
		return e.WithAction(capabilities.Action{Key: capabilities.ActionExplainPolicy, Tool: n.req.Tool}, "Permit it by policy.")
	}
	return e
}

// maxRulesNamed bounds how many rules a hint names.
const maxRulesNamed = 8

// closedAddress is what to do about an address that no rule opens, as the descriptor says:
// one on this machine or in a local network, or one that is none of the web. Nothing for
// others.
func closedAddress(d *catalog.Descriptor, args []byte) string {
	for _, what := range d.Reaches(args) {
		if what.Closed == nil {
			continue
		}
		hint, to := "", policy.ClassifyURL(what.Text)
		switch {
		case to.Scheme != "http" && to.Scheme != "https":
			hint = what.Closed.Scheme
		case to.Address == policy.AddressLoopback || to.Address == policy.AddressPrivate:
			hint = what.Closed.Local
		}
		if hint != "" {
			return strings.ReplaceAll(hint, "{origin}", to.Origin)
		}
	}
	return ""
}
