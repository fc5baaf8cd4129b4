package consent

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// MaxApprovalLife is how long a question stays open at most, however often somebody
// wanted more time for it.
const MaxApprovalLife = time.Hour

// Extend returns whoever answers as much time again as a question has from the start,
// counted from now, and at most MaxApprovalLife in all. It allows nothing: without an
// answer the question is denied later. CodeConflict if nothing waits under that ID, or
// it cannot be kept open longer.
func (c *Consent) Extend(ctx context.Context, id string, by capabilities.PrincipalID) (Approval, error) {
	c.mu.Lock()
	now := c.opts.Now()
	c.expireLocked(now)
	p := c.pending[id]
	if p == nil || p.claimed {
		c.mu.Unlock()
		return Approval{}, capabilities.Errorf(capabilities.CodeConflict, "nothing waits under that ID: it was answered, or its time is over")
	}
	until, most := now.Add(approvalLife), p.Created.Add(MaxApprovalLife)
	if until.After(most) {
		until = most
	}
	if !until.After(p.Expires) {
		at := p.Approval
		c.mu.Unlock()
		if until.Before(most) {
			return at, nil // it is open for longer than that already
		}
		return Approval{}, capabilities.Errorf(capabilities.CodeConflict, "a question stays open for an hour at most").
			WithHint("Answer it, or let the agent call again later.")
	}
	p.Expires = until
	at := p.Approval
	c.tellLocked()
	c.mu.Unlock()
	return at, c.opts.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		if _, err := tx.Exec(`UPDATE question SET expires_ms = $1 WHERE id = $2`, until.UnixMilli(), id); err != nil {
			return err
		}
		return c.opts.Record(tx, "gateway.approval.extended", by, packet.Extended{Approval: id, ExpiresAt: until})
	})
}
