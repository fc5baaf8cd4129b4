package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Details of CodeAmbiguousNode: which of the two "otherwise" cases it is
// (S0-18 has one error for both).
const (
	DetailNone    = "no_eligible_node"
	DetailSeveral = "several_eligible_nodes"
)

// MaxCandidates bounds the list an ambiguity error carries.
const MaxCandidates = 16

// Input is everything selection looks at.
type Input struct {
	Requested  capabilities.NodeID   // what the caller named; "" = not named
	Attached   []capabilities.NodeID // nodes attached to the lane
	Capability capabilities.CapabilityID
	Implicit   []capabilities.SelectionMode // modes the descriptor allows without node_id
	// Hosts are the nodes that host the provider of the tool, in the order in which they are
	// tried; only for SelectHost. More than one are interchangeable. None: it is one whose
	// satellites are all revoked.
	Hosts []capabilities.NodeID
	Nodes []Node // the roster
	// PolicyDenied says whether policy denies this very call on that node; an
	// "ask" is not a denial. nil denies nothing. Asked only for nodes that are
	// eligible otherwise.
	PolicyDenied func(capabilities.NodeID) bool
}

// Selection is the node that was picked, and how.
type Selection struct {
	Node    capabilities.NodeID
	Mode    capabilities.SelectionMode
	Summary capabilities.NodeSummary
}

// Routing returns the record that goes beside the payload, never inside it (S0-28,
// S0-29, S0-32).
func (s Selection) Routing(requested capabilities.NodeID) *capabilities.Routing {
	summary := s.Summary
	return &capabilities.Routing{Requested: requested, Selected: s.Node, Mode: s.Mode, Node: &summary}
}

// Candidate describes one node in the details of an ambiguity or refusal.
type Candidate struct {
	Node     capabilities.NodeID `json:"node_id"`
	Label    string              `json:"label,omitempty"`
	Platform string              `json:"platform,omitempty"`
	Code     capabilities.Code   `json:"code,omitempty"`
	Reason   capabilities.Reason `json:"reason,omitempty"`
	Fix      string              `json:"fix,omitempty"`
	Action   capabilities.Action `json:"-"` // what Fix asks for; surfaces word it there
}

// Why says what the candidates of a refused selection have in common.
type Why string

// The reasons of a refused selection.
const (
	WhySeveral  Why = "several"          // more than one could, and none was named; or the tool wants it named
	WhyNoNode   Why = "no_node"          // none is paired that offers it
	WhyNotReady Why = "not_ready"        // none is ready now: this may pass by itself
	WhyDenied   Why = "denied_by_policy" // policy or the admin's allowlist denies it on each
	WhyMixed    Why = "mixed"            // each has a reason of its own
)

// why returns the reason that a candidate's code stands for.
func why(code capabilities.Code) Why {
	switch code {
	case capabilities.CodeNodeNotReady:
		return WhyNotReady
	case capabilities.CodeNodeDeniedByPolicy, capabilities.CodeCapabilityNotAllowlisted:
		return WhyDenied
	}
	return WhyNoNode
}

// Ambiguity is the Details of CodeAmbiguousNode.
type Ambiguity struct {
	Detail     string      `json:"detail"`
	Reason     Why         `json:"reason"`
	Candidates []Candidate `json:"candidates"`     // by node ID, at most MaxCandidates
	More       bool        `json:"more,omitempty"` // there are others
}

// Away reports whether a refusal of Select may be over once a node that is away now
// comes back.
func Away(e *capabilities.Error) bool {
	switch about := e.Details.(type) {
	case Candidate:
		return about.Reason == capabilities.ReasonNodeOffline
	case Ambiguity:
		return about.Detail == DetailNone && slices.ContainsFunc(about.Candidates, func(c Candidate) bool {
			return c.Reason == capabilities.ReasonNodeOffline
		})
	}
	return false
}

// Select picks the node or says exactly why it cannot.
func Select(in Input) (Selection, *capabilities.Error) {
	if in.Requested != "" {
		if n := find(in.Nodes, in.Requested); n != nil && n.Serves != "" {
			in.Nodes = nil // it is no node
		}
		return explicit(in)
	}
	allows := func(m capabilities.SelectionMode) bool { return slices.Contains(in.Implicit, m) }
	if allows(capabilities.SelectHost) {
		return hosted(in)
	}

	// S0-17 (a): exactly one node attached, and it is eligible. An attached node
	// that is not in the roster still counts as attached: with two attached the lane
	// does not say which one is meant.
	standing := Standing(in.Attached, in.Nodes)
	if attached, one := onlyOne(standing); one && allows(capabilities.SelectAttached) {
		if n := find(in.Nodes, attached); n != nil && Check(n, in.Capability, in.PolicyDenied).Eligible() {
			return Selection{n.ID, capabilities.SelectAttached, n.Summary}, nil
		}
	}
	// S0-17 (b), S0-21: exactly one eligible node exists. Two settle it, so policy
	// is not asked about a third.
	var sole *Node
	eligible := 0
	for i := 0; i < len(in.Nodes) && eligible < 2; i++ {
		n := &in.Nodes[i]
		if n.Serves == "" && usable(n, in.Capability).Eligible() && Check(n, in.Capability, in.PolicyDenied).Eligible() {
			sole = n
			eligible++
		}
	}
	// A lane that meant a node which was put out must not go on to mean whichever is
	// left.
	putOut := len(standing) == 0 && len(in.Attached) > 0 && allows(capabilities.SelectAttached)
	if eligible == 1 && allows(capabilities.SelectSole) && !putOut {
		return Selection{sole.ID, capabilities.SelectSole, sole.Summary}, nil
	}
	err := ambiguous(in, eligible)
	if putOut {
		err.Message = fmt.Sprintf("The node that this lane is attached to, %s, was denied or revoked.", in.Attached[0])
		err.Hint, err.Action = "Give node_id, or have another node attached to the lane.", capabilities.Action{Key: capabilities.ActionAttachNode}
	}
	return Selection{}, err
}

// hosted picks the first eligible host of a provider. That another node could do the same is
// nothing that a caller has to know.
func hosted(in Input) (Selection, *capabilities.Error) {
	var first *capabilities.Error
	for _, id := range in.Hosts {
		in.Requested = id
		s, err := explicit(in)
		if err == nil {
			s.Mode = capabilities.SelectHost
			return s, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = NoSatellite()
	}
	return Selection{}, first
}

// ReasonSatelliteRevoked is said of a provider, and of no node: none of its satellites is let in.
const ReasonSatelliteRevoked capabilities.Reason = "satellite_revoked"

// NoSatellite is the refusal of a call whose provider has no satellite that is let in.
func NoSatellite() *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeNodeNotReady, "no satellite of this tool's provider is let in: the last was revoked").
		WithAction(capabilities.Action{Key: capabilities.ActionListSatellites}, "Let another one in.")
}

// explicit targets the named node and no other (S0-15, S0-16).
func explicit(in Input) (Selection, *capabilities.Error) {
	n := find(in.Nodes, in.Requested)
	if n == nil {
		return Selection{}, capabilities.Errorf(capabilities.CodeNodeNotFound, "there is no node %q", in.Requested)
	}
	v := Check(n, in.Capability, in.PolicyDenied)
	if v.Eligible() {
		return Selection{n.ID, capabilities.SelectExplicit, n.Summary}, nil
	}
	return Selection{}, &capabilities.Error{Code: v.Code, Hint: v.Fix, Action: v.Action, Details: candidate(n, v)}
}

// Standing returns those of a lane's attached nodes that were not turned away for good.
func Standing(attached []capabilities.NodeID, nodes []Node) []capabilities.NodeID {
	return slices.DeleteFunc(slices.Clone(attached), func(id capabilities.NodeID) bool {
		n := find(nodes, id)
		return n != nil && gone(n)
	})
}

// ambiguous is the one error for "otherwise" (S0-18); its details say whether
// none or several were eligible and, for none, what each node lacks.
func ambiguous(in Input, eligible int) *capabilities.Error {
	byID := make([]*Node, len(in.Nodes))
	for i := range in.Nodes {
		byID[i] = &in.Nodes[i]
	}
	slices.SortFunc(byID, func(a, b *Node) int { return strings.Compare(string(a.ID), string(b.ID)) })

	a := Ambiguity{Detail: DetailSeveral, Reason: WhySeveral, Candidates: []Candidate{}}
	passing := false
	if eligible == 0 {
		a.Detail, a.Reason = DetailNone, WhyNoNode
	}
	for _, n := range byID {
		// Nodes that were turned away for good are nothing to repair.
		if n.Serves != "" || gone(n) || (eligible > 0 && !usable(n, in.Capability).Eligible()) {
			continue
		}
		v := Check(n, in.Capability, in.PolicyDenied)
		if v.Eligible() != (eligible > 0) {
			continue
		}
		if len(a.Candidates) == MaxCandidates {
			a.More = true
			break
		}
		if !v.Eligible() {
			passing = passing || why(v.Code) == WhyNotReady
			if len(a.Candidates) == 0 {
				a.Reason = why(v.Code)
			} else if a.Reason != why(v.Code) {
				a.Reason = WhyMixed
			}
		}
		a.Candidates = append(a.Candidates, candidate(n, v))
	}
	err := &capabilities.Error{Code: capabilities.CodeAmbiguousNode, Details: a, Passing: passing}
	switch {
	case eligible > 1:
		err.Message = "Several nodes could do this, and none was named."
		err.Hint = "Give node_id: " + listIDs(a) + "."
		if slices.Contains(in.Implicit, capabilities.SelectAttached) {
			err.Hint = "Give node_id (" + listIDs(a) + "), or attach one node to the lane."
		}
	case eligible == 1:
		// Only where the descriptor allows no implicit mode that fits.
		err.Message = "This tool wants the node named."
		err.Hint = "Give node_id: " + listIDs(a) + "."
	case len(a.Candidates) == 0:
		err.Message = "There is no node yet."
		err.Hint, err.Action = "Have one paired.", capabilities.Action{Key: capabilities.ActionPairNode}
	case len(a.Candidates) == 1:
		err.Message = "The only node cannot do this now: " + string(a.Candidates[0].Reason) + "."
		only := &capabilities.Error{Code: a.Candidates[0].Code, Hint: a.Candidates[0].Fix, Action: a.Candidates[0].Action}
		err.Hint, err.Action = only.PublicHint(), only.PublicAction()
	case a.Reason == WhyNotReady:
		err.Message = "No node is ready for this now."
		err.Hint = "See the reason and the fix of each candidate."
	case a.Reason == WhyDenied:
		err.Message = "No node may do this."
		err.Hint = "See the reason and the fix of each candidate."
	default:
		err.Message = "No node can do this now."
		err.Hint = "See the reason and the fix of each candidate."
	}
	return err
}

// listIDs names the first few candidates, for clients that show text only.
func listIDs(a Ambiguity) string {
	const few = 4
	var ids []string
	for _, c := range a.Candidates[:min(few, len(a.Candidates))] {
		ids = append(ids, string(c.Node))
	}
	if a.More || len(a.Candidates) > few {
		ids = append(ids, "and others")
	}
	return strings.Join(ids, ", ")
}

func candidate(n *Node, v Verdict) Candidate {
	return Candidate{
		Node: n.ID, Label: n.Summary.Label, Platform: n.Summary.Platform, Code: v.Code, Reason: v.Reason, Fix: v.Fix, Action: v.Action,
	}
}

// gone nodes were turned away for good.
func gone(n *Node) bool {
	return n.Revoked || n.Paired == StateRevoked || n.Paired == StateDenied
}

func find(nodes []Node, id capabilities.NodeID) *Node {
	for i := range nodes {
		if nodes[i].ID == id {
			return &nodes[i]
		}
	}
	return nil
}

// onlyOne returns the single distinct ID in ids.
func onlyOne(ids []capabilities.NodeID) (capabilities.NodeID, bool) {
	if len(ids) == 0 {
		return "", false
	}
	for _, id := range ids[1:] {
		if id != ids[0] {
			return "", false
		}
	}
	return ids[0], true
}
