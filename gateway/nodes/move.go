package nodes

import (
	"crypto/tls"
	"errors"

	"github.com/handrail-dev/handrail/capabilities/wire"
)

// errTurnedAway ends a handshake before the node believes that it is connected: it tries its other
// addresses then.
var errTurnedAway = errors.New("nodes: this gateway takes no nodes now")

// TurnAway has nodes that connect go to other gateways, or lets them in again.
func (n *Nodes) TurnAway(on bool) { n.away.Store(on) }

// takes is of a handshake's beginning.
func (n *Nodes) takes(*tls.ClientHelloInfo) (*tls.Config, error) {
	if n.away.Load() {
		return nil, errTurnedAway
	}
	return nil, nil
}

// Move ends the connections of nodes that carry nothing for another gateway, so that they go
// elsewhere, and returns how many are left. It is for a gateway that turns nodes away and has no
// calls of its own.
func (n *Nodes) Move() (left int) {
	n.mu.RLock()
	sessions := make([]*session, 0, len(n.sessions))
	for _, s := range n.sessions {
		sessions = append(sessions, s)
	}
	n.mu.RUnlock()
	n.listenMu.Lock()
	p := n.peers
	n.listenMu.Unlock()
	for _, s := range sessions {
		if p != nil && !p.lets(s) {
			left++
			continue
		}
		closeWith(s.conn, wire.CloseDone)
	}
	return left
}

// Here returns how many nodes are connected here.
func (n *Nodes) Here() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.sessions)
}

// Relayed returns how many calls of other gateways go through this one.
func (n *Nodes) Relayed() (calls int) {
	n.listenMu.Lock()
	p := n.peers
	n.listenMu.Unlock()
	if p == nil {
		return 0
	}
	p.gate.RLock()
	defer p.gate.RUnlock()
	for r := range p.relays {
		if r.Call != "" {
			calls++
		}
	}
	return calls
}

// lets reports whether a node may go: nothing is relayed to it, and nothing will be.
func (p *peers) lets(s *session) bool {
	p.gate.Lock()
	defer p.gate.Unlock()
	for r := range p.relays {
		if r.Node == s.node {
			return false
		}
	}
	s.moving = true
	return true
}
