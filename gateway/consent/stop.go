package consent

import (
	"context"
	"errors"
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
		if _, err := tx.Exec(`DELETE FROM question WHERE id <> ''`); err != nil { // the stop is their end on record
			return err
		}
		return EndAllIn(tx)
	}
	if _, err := tx.Exec(`DELETE FROM question WHERE json_extract(body, '$.Node') = $1`, string(node)); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM grant_store WHERE json_extract(body, '$.node') = $1`, string(node))
	return err
}

// HaltElsewhere is Halt of everything for a stop that another gateway made durable. Questions
// of here since then are taken out of the store, too.
func (c *Consent) HaltElsewhere(ctx context.Context) error {
	c.Halt("")
	return c.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
		c.mu.Lock()
		open := make(map[string]bool, len(c.pending))
		for id := range c.pending {
			open[id] = true
		}
		c.mu.Unlock()
		rows, err := tx.Query(`SELECT id FROM question WHERE member = $1`, c.opts.Store.Member())
		if err != nil {
			return err
		}
		var over []string
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return errors.Join(err, rows.Close())
			}
			if !open[id] {
				over = append(over, id)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		for _, id := range over {
			if err := forgetIn(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
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
