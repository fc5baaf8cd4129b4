package route

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Details of CodeAmbiguousNode: which of the two "otherwise" cases it is
// (DESIGN section 14; S0 has one error for both).
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
	Nodes      []Node                       // the roster
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

// Routing gives the record that goes beside the payload, never inside it (S0-28,
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
}

// Ambiguity is the Details of CodeAmbiguousNode.
type Ambiguity struct {
	Detail     string      `json:"detail"`
	Candidates []Candidate `json:"candidates"`
	Omitted    int         `json:"omitted,omitempty"` // how many more there are
}

// Select picks the node or says exactly why it can not.
func Select(in Input) (Selection, *capabilities.Error) {
	if in.Requested != "" {
		return explicit(in)
	}
	allows := func(m capabilities.SelectionMode) bool { return slices.Contains(in.Implicit, m) }

	// S0-17 (a): exactly one node attached, and it is eligible. An attached node
	// that is no longer in the roster still counts as attached: with two attached
	// the lane does not say which one is meant.
	if attached, one := onlyOne(in.Attached); one && allows(capabilities.SelectAttached) {
		if n := find(in.Nodes, attached); n != nil && Check(n, in.Capability, in.PolicyDenied).Eligible() {
			return Selection{n.ID, capabilities.SelectAttached, n.Summary}, nil
		}
	}
	// S0-17 (b), S0-21: exactly one eligible node exists.
	var eligible, rest []Candidate
	for i := range in.Nodes {
		n := &in.Nodes[i]
		v := Check(n, in.Capability, in.PolicyDenied)
		c := Candidate{Node: n.ID, Label: n.Summary.Label, Platform: n.Summary.Platform, Code: v.Code, Reason: v.Reason, Fix: v.Fix}
		switch {
		case v.Eligible():
			eligible = append(eligible, c)
		case !gone(n):
			rest = append(rest, c)
		}
	}
	if len(eligible) == 1 && allows(capabilities.SelectSole) {
		n := find(in.Nodes, eligible[0].Node)
		return Selection{n.ID, capabilities.SelectSole, n.Summary}, nil
	}
	return Selection{}, ambiguous(eligible, rest)
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
	err := &capabilities.Error{Code: v.Code, Hint: v.Fix, Details: Candidate{
		Node: n.ID, Label: n.Summary.Label, Platform: n.Summary.Platform, Code: v.Code, Reason: v.Reason, Fix: v.Fix,
	}}
	return Selection{}, err
}

// ambiguous is the one error for "otherwise" (S0-18); its details say whether
// none or several were eligible and, for none, what each node lacks.
func ambiguous(eligible, rest []Candidate) *capabilities.Error {
	err := &capabilities.Error{Code: capabilities.CodeAmbiguousNode}
	a := Ambiguity{Detail: DetailSeveral, Candidates: eligible}
	switch {
	case len(eligible) > 1:
		err.Message = "Several nodes could do this, and none was named."
		err.Hint = "Give node_id with one of the candidates, or attach one node to the lane."
	case len(eligible) == 1:
		// Only for a descriptor that allows no implicit mode that fits.
		err.Message = "This tool wants the node named."
		err.Hint = "Give node_id."
	default:
		a = Ambiguity{Detail: DetailNone, Candidates: rest}
		err.Message = "No node can do this now."
		err.Hint = "See the reason and the fix of each candidate."
		if len(rest) == 0 {
			err.Hint = "Pair a node: run 'handrail pair', then 'handrail node join' on the device."
		}
	}
	slices.SortFunc(a.Candidates, func(x, y Candidate) int { return strings.Compare(string(x.Node), string(y.Node)) })
	if extra := len(a.Candidates) - MaxCandidates; extra > 0 {
		a.Candidates, a.Omitted = a.Candidates[:MaxCandidates], extra
	}
	if a.Candidates == nil {
		a.Candidates = []Candidate{}
	}
	err.Details = a
	return err
}

// gone nodes were turned away for good; they are no candidates to repair.
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

// onlyOne gives the single distinct ID in ids.
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
