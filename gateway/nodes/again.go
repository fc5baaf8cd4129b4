package nodes

import (
	"context"
	"errors"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// Tables are those that the room keeps in memory, and reads again once another gateway wrote them.
var Tables = []string{"node"}

// attempts is how often a change is tried whose node another gateway changed meanwhile.
const attempts = 5

// errOld: what a change was made of is not what holds any more.
var errOld = errors.New("nodes: another gateway changed it meanwhile")

// Again reads the roster as it stands now. Nodes that another gateway put out lose their
// connection, devices that wait hear the decision, and a new allowlist is told.
func (n *Nodes) Again(ctx context.Context) error {
	n.mu.RLock()
	before := n.roster
	n.mu.RUnlock()
	if err := n.load(ctx); err != nil {
		return err
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	for id, s := range n.sessions {
		r, was := n.roster[id], before[id]
		switch {
		case r == nil || r.state != pairing.StateApproved:
			code := wire.CloseRevoked
			if r == nil {
				code = wire.CloseNotInRoster
			}
			go closeWith(s.conn, code) // it waits for the connection
		case was != nil && !slices.Equal(was.allow, r.allow):
			go func() {
				if err := s.send(&wire.Allowlist{Capabilities: r.allow}); err != nil {
					n.log.Warn("node.allow", "node", id, "err", err) // it reads the list again at its next hello
				}
			}()
		}
	}
	for id, w := range n.waiting {
		if r := n.roster[id]; r != nil && r.state != pairing.StatePending {
			select {
			case w.decided <- r:
			default:
			}
		}
	}
	return nil
}

// same returns errOld within a write if a record is not the one any more that the change was made
// of: the writer read the roster again where another gateway changed it.
func (n *Nodes) same(r *record) error {
	if n.opts.Store.Member() != "" && n.lookup(r.id) != r {
		return errOld
	}
	return nil
}

// anew tries a change again whose node was read again meanwhile.
func anew(try func() error) error {
	err := try()
	for i := 1; i < attempts && errors.Is(err, errOld); i++ {
		err = try()
	}
	if errors.Is(err, errOld) {
		return capabilities.Wrap(capabilities.CodeConflict, err, "Another gateway of the site changes this node.").WithHint("Repeat it.")
	}
	return err
}
