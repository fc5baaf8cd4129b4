package nodes

import (
	"context"
	"database/sql"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/pairing"
)

// Owner is whose device an approved node is; empty: nobody's.
func (n *Nodes) Owner(id capabilities.NodeID) capabilities.PrincipalID {
	if r := n.lookup(id); r != nil && r.state == pairing.StateApproved {
		return r.ownedBy()
	}
	return ""
}

func (r *record) ownedBy() capabilities.PrincipalID { return capabilities.PrincipalID(r.owner.String) }

// Adopt has a node be owner's if nobody has said yet whose it is: an owner, or that it has
// none, is never replaced.
func (n *Nodes) Adopt(ctx context.Context, id capabilities.NodeID, by, owner capabilities.PrincipalID) error {
	if r := n.lookup(id); r == nil || r.owner.Valid {
		return nil
	}
	_, err := n.Change(ctx, id, Edit{By: by, Owner: &owner})
	return err
}

// Disown has nodes that are owner's be as if nobody had said whose they are.
func (n *Nodes) Disown(ctx context.Context, owner, by capabilities.PrincipalID) error {
	var failed error
	for _, v := range n.Views() {
		if v.Owner != owner {
			continue
		}
		_, err := n.change(ctx, v.ID, "node.changed", packet.NodeChanged{By: by, Owner: new(capabilities.PrincipalID)}, func(r *record) error {
			r.owner = sql.NullString{}
			return nil
		})
		failed = errors.Join(failed, err)
	}
	return failed
}
