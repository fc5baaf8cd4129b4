package route

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Roster states as route reads them; pairing owns their transitions.
const (
	StatePending  = "pending"
	StateApproved = "approved"
	StateDenied   = "denied"
	StateRevoked  = "revoked"
)

// Node is one row of the roster as node selection sees it. It is a snapshot:
// nothing in it changes after it was handed out, so maps may be shared.
type Node struct {
	ID        capabilities.NodeID
	Summary   capabilities.NodeSummary // described, never weighed (S0-19)
	Labels    []string                 // for policy (resource labels); never weighed
	Paired    string                   // roster state; only StateApproved is paired
	Revoked   bool                     // wins over Paired
	Connected bool
	// Session tells connections of the node apart: a process that starts again has another. 0 for a
	// satellite, which holds nothing.
	Session uint64
	// Recall is what the node's journal reaches back to (wire.Hello); "" where it does not say.
	Recall  string
	Stopped bool // the owner's stop switch is on
	// Allow reports whether the admin's allowlist has the capability. nil allows
	// nothing. AllowPatterns makes one.
	Allow func(capabilities.CapabilityID) bool
	// Readiness holds what the node advertised last, by capability. A capability that is not in it
	// is not advertised.
	Readiness map[capabilities.CapabilityID]capabilities.Readiness
	// Denied shuts the node out of every call by policy, whatever the tool is.
	Denied bool
	// Serves is the provider of a satellite, which carries out that provider's tools and is no
	// device: nobody names it, attaches it, finds it in a list, or selects it. "" for a node.
	Serves string
}

// AllowPatterns makes an allowlist of exact capability IDs, families written
// "tyrum.browser.*", and "*" for everything. Nothing else is a wildcard.
func AllowPatterns(patterns ...string) func(capabilities.CapabilityID) bool {
	exact := make(map[string]bool, len(patterns))
	var prefixes []string
	all := false
	for _, p := range patterns {
		switch {
		case p == "*":
			all = true
		case strings.HasSuffix(p, ".*"):
			prefixes = append(prefixes, strings.TrimSuffix(p, "*"))
		default:
			exact[p] = true
		}
	}
	return func(c capabilities.CapabilityID) bool {
		if all || exact[string(c)] {
			return true
		}
		for _, p := range prefixes {
			if strings.HasPrefix(string(c), p) {
				return true
			}
		}
		return false
	}
}

// Verdict says whether a node is eligible for a capability (S0-14) and, if not,
// why not. The zero value means eligible.
type Verdict struct {
	Code   capabilities.Code
	Reason capabilities.Reason
	Fix    string
	Action capabilities.Action // what Fix asks for
}

// Eligible reports whether nothing stands in the way.
func (v Verdict) Eligible() bool { return v.Code == "" }

// Check looks at one node for one capability: paired, advertised, allowlisted,
// ready, not denied by policy, in that order, so that the first cause in a
// person's way is the one that is named. policyDenied may be nil; it is asked
// last and only when everything else holds.
func Check(n *Node, capability capabilities.CapabilityID, policyDenied func(capabilities.NodeID) bool) Verdict {
	v := usable(n, capability)
	if v.Eligible() && (n.Denied || (policyDenied != nil && policyDenied(n.ID))) {
		v = Verdict{Code: capabilities.CodeNodeDeniedByPolicy, Reason: capabilities.ReasonHiddenByPolicy}
	}
	if !v.Eligible() && v.Fix == "" {
		v.Fix, v.Action = fix(n, capability, v)
	}
	return v
}

// usable is Check without policy and without words; it runs over the whole
// roster for a call that names no node.
func usable(n *Node, capability capabilities.CapabilityID) Verdict {
	if n.Revoked || n.Paired != StateApproved {
		return Verdict{Code: capabilities.CodeNodeNotPaired, Reason: capabilities.ReasonNodeNotPaired}
	}
	ready, advertised := n.Readiness[capability]
	// A node that is away and never told us anything may well offer it: say what
	// is known, that it is away.
	silent := !n.Connected && len(n.Readiness) == 0
	if !silent && (!advertised || ready.Reason == capabilities.ReasonNotAdvertised) {
		return Verdict{
			Code: capabilities.CodeCapabilityNotAdvertised, Reason: capabilities.ReasonNotAdvertised, Fix: ready.Fix, Action: ready.Action,
		}
	}
	if n.Allow == nil || !n.Allow(capability) {
		return Verdict{Code: capabilities.CodeCapabilityNotAllowlisted, Reason: capabilities.ReasonNotAllowlisted}
	}
	switch {
	case !n.Connected:
		return Verdict{Code: capabilities.CodeNodeNotReady, Reason: capabilities.ReasonNodeOffline}
	case n.Stopped:
		return Verdict{Code: capabilities.CodeNodeNotReady, Reason: capabilities.ReasonNodeStopped}
	case !ready.Ready():
		return Verdict{Code: capabilities.CodeNodeNotReady, Reason: ready.Reason, Fix: ready.Fix, Action: ready.Action}
	}
	return Verdict{}
}

// fix says what a person can do about a verdict that brought no advice itself.
func fix(n *Node, capability capabilities.CapabilityID, v Verdict) (string, capabilities.Action) {
	switch v.Reason {
	case capabilities.ReasonNodeNotPaired:
		if !n.Revoked && n.Paired == StatePending {
			return "An admin can approve it.", capabilities.Action{Key: capabilities.ActionApproveNode, Node: n.ID}
		}
		return "Its pairing was refused or revoked: pair it anew.", capabilities.Action{}
	case capabilities.ReasonNotAllowlisted:
		return "An admin can allow it.", capabilities.Action{Key: capabilities.ActionAllowNode, Node: n.ID, Capability: capability}
	case capabilities.ReasonNodeOffline:
		if n.Serves != "" {
			return "Start the satellite, and see that it reaches the gateway.", capabilities.Action{
				Key: capabilities.ActionRunSatellite, Name: n.Serves,
			}
		}
		return "Start Handrail's node on the device and see that it reaches the gateway.", capabilities.Action{Key: capabilities.ActionStartNode}
	case capabilities.ReasonNodeStopped:
		return "The owner has to resume the device.", capabilities.Action{}
	case capabilities.ReasonHiddenByPolicy:
		return "Ask the admin, who can see the rule.", capabilities.Action{}
	}
	return "", capabilities.Action{}
}
