package consent

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Halt ends, at once and in memory, every grant and every question about a node; for
// the empty node, all of them. It tells how many grants there were. A grant that is
// being made meanwhile is not made. HaltIn makes it durable.
func (c *Consent) Halt(node capabilities.NodeID) (grants int) {
	c.mu.Lock()
	c.halts++
	for id, g := range c.grants {
		if node == "" || g.Node == node {
			c.letGoLocked(g) // who pulled the switch may have been the agent's hands
			delete(c.grants, id)
			grants++
		}
	}
	var ended []*approval
	for _, p := range c.pending {
		if node == "" || p.Node == node {
			p.Closed = ClosedStopped
			ended = append(ended, p)
		}
	}
	c.mu.Unlock()
	for _, p := range ended {
		c.endQuestion(p, StateClosed, &capabilities.Error{Code: capabilities.CodeStopped})
	}
	return grants
}

// HaltIn takes those grants out of the store.
func (c *Consent) HaltIn(tx *store.Tx, node capabilities.NodeID) error {
	tx.OnCommit(func() { // Again may have read them meanwhile
		c.dropGrants(func(g *Grant) bool { return g.Kind != KindCall && (node == "" || g.Node == node) })
	})
	if node == "" {
		return EndAllIn(tx)
	}
	_, err := tx.Exec(`DELETE FROM grant_store WHERE json_extract(body, '$.node') = $1`, string(node))
	return err
}

// EndAllIn takes every grant out of the store, where nobody has loaded them.
func EndAllIn(tx *store.Tx) error {
	_, err := tx.Exec(`DELETE FROM grant_store`)
	return err
}

// TurnIn ends, as part of tx, what was granted under another policy than snapshot, which
// comes into force with it. Going back to a policy brings no grant back.
func (c *Consent) TurnIn(tx *store.Tx, snapshot string, by capabilities.PrincipalID) error {
	c.mu.Lock()
	var ended []string
	for id, g := range c.grants {
		if g.Snapshot != snapshot {
			ended = append(ended, id)
		}
	}
	c.mu.Unlock()
	slices.Sort(ended)
	for _, id := range ended {
		if err := c.opts.Record(tx, "gateway.grant.revoked", by, packet.GrantRevoked{Grant: id, Reason: "policy_changed"}); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM grant_store WHERE grant_id = $1`, id); err != nil {
			return err
		}
	}
	tx.OnCommit(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, id := range ended {
			if g := c.grants[id]; g != nil {
				c.letGoLocked(g)
				delete(c.grants, id)
			}
		}
	})
	return nil
}

// halted tells how often Halt was called. A grant is made only if that is the same
// when it is written down, and when it comes into force, as when it was begun: the
// store has one writer, so what was written before is taken out after.
func (c *Consent) halted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.halts
}

func stoppedMeanwhile() error {
	return capabilities.Errorf(capabilities.CodeStopped, "everything was stopped meanwhile, so nothing was granted")
}
