package nodes

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Put tells a node what the person there may answer now, if that is news to it. A node
// that does not read loses its connection.
func (n *Nodes) Put(id capabilities.NodeID, list []wire.Question) {
	s := n.session(id)
	if s == nil || !s.asks || !s.greeted() {
		return // it is told after its greeting
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	same := func(a, b wire.Question) bool { return a.Digest() == b.Digest() }
	if slices.EqualFunc(s.asked.List, list, same) {
		return
	}
	s.asked = wire.Questions{List: slices.Clone(list)}
	if err := s.send(&s.asked); err != nil {
		n.log.Warn("node.questions", "node", id, "err", err)
		closeWith(s.conn, wire.CloseHeartbeat)
	}
}

// Asks reports whether a node is there that puts questions to its person, who answers by
// keys of the device.
func (n *Nodes) Asks(id capabilities.NodeID) bool {
	s := n.session(id)
	return s != nil && s.asks
}

// takeVerdict has the gateway judge an answer, and says what became of it.
func (n *Nodes) takeVerdict(s *session, v *wire.Verdict) error {
	taken := &wire.VerdictTaken{
		ID: v.ID, Allow: v.Allow, Code: capabilities.CodeForbidden, Message: "this gateway takes no answers from devices",
	}
	if n.opts.OnVerdict != nil && n.session(s.node) == s {
		taken.Code, taken.Message = "", ""
		if err := n.opts.OnVerdict(s.node, *v); err != nil {
			e := capabilities.AsError(err)
			taken.Code, taken.Message = e.Code, e.PublicMessage()
		}
	}
	taken.Clip()
	return s.send(taken)
}
