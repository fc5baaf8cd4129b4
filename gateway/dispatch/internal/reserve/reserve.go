package reserve

import (
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
)

// Owner is whose a node is while it is kept.
type Owner struct {
	Principal capabilities.PrincipalID
	Lane      capabilities.LaneID
}

// Visit is a call that wants to a node.
type Visit struct {
	Node      capabilities.NodeID
	By        Owner
	Inside    bool // it is made by the gateway's own hand
	OnDesk    bool // it touches the person's screen, mouse or keyboard
	Execution *execution.Execution
}

// Reservation is one node that is kept.
type Reservation struct {
	owner   Owner
	calls   int           // exclusive calls of the owner's
	over    chan struct{} // closed when the last has ended
	waiting int           // calls that waited
}

// Owner returns whose it is.
func (r *Reservation) Owner() Owner { return r.owner }

// Over is closed when the node is given back.
func (r *Reservation) Over() <-chan struct{} { return r.over }

// Nodes are the nodes that are kept, and what is admitted to each. All methods are safe
// for concurrent use.
type Nodes struct {
	mu       sync.Mutex
	kept     map[capabilities.NodeID]*Reservation
	admitted map[capabilities.NodeID]map[*execution.Execution]bool // true: it is on the person's desk
}

// New makes Nodes of which none is kept.
func New() *Nodes {
	return &Nodes{kept: map[capabilities.NodeID]*Reservation{}, admitted: map[capabilities.NodeID]map[*execution.Execution]bool{}}
}

// Standing returns the reservation that v has to wait for; nil if there is none. Only what
// the owner does by the gateway's own hand passes it.
func (n *Nodes) Standing(v Visit) *Reservation {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.standingLocked(v)
}

func (n *Nodes) standingLocked(v Visit) *Reservation {
	r := n.kept[v.Node]
	if r == nil || v.Inside && r.owner == v.By {
		return nil
	}
	return r
}

// Admit counts v in on its node, or returns what it has to wait for.
func (n *Nodes) Admit(v Visit) *Reservation {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.standingLocked(v); r != nil {
		return r
	}
	if n.admitted[v.Node] == nil {
		n.admitted[v.Node] = map[*execution.Execution]bool{}
	}
	n.admitted[v.Node][v.Execution] = v.OnDesk
	return nil
}

// Leave counts v out.
func (n *Nodes) Leave(v Visit) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.admitted[v.Node], v.Execution)
	if len(n.admitted[v.Node]) == 0 {
		delete(n.admitted, v.Node)
	}
}

// Keep makes v's node its owner's and ends, with CodeTakenOver, what others do on its
// desk; it returns how many that were. ok is false if somebody else was quicker.
func (n *Nodes) Keep(v Visit) (ended int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.kept[v.Node]; r != nil {
		if r.owner != v.By {
			return 0, false
		}
		r.calls++
		return 0, true
	}
	n.kept[v.Node] = &Reservation{owner: v.By, calls: 1, over: make(chan struct{})}
	for other, onDesk := range n.admitted[v.Node] {
		if onDesk && other != v.Execution {
			other.Cancel(&capabilities.Error{Code: capabilities.CodeTakenOver})
			ended++
		}
	}
	return ended, true
}

// GiveBack ends one exclusive call's hold; with the last the others go on.
func (n *Nodes) GiveBack(node capabilities.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.kept[node]
	if r.calls--; r.calls == 0 {
		delete(n.kept, node)
		close(r.over)
	}
}

// Wait counts a call that waits for r.
func (n *Nodes) Wait(r *Reservation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.waiting++
}

// Waited returns how many calls have waited for node so far.
func (n *Nodes) Waited(node capabilities.NodeID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.kept[node]; r != nil {
		return r.waiting
	}
	return 0
}

// Kept returns the reservation of node; nil if it is not kept.
func (n *Nodes) Kept(node capabilities.NodeID) *Reservation {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kept[node]
}
