package consent

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A question lies in memory, because it shows arguments. The store knows that it was asked, so that
// the next start can say what became of it: it is closed, and its caller, who makes the same call
// again, has it asked anew.

// noteIn has the next start know of a question.
func noteIn(tx *store.Tx, a *Approval) error {
	body, err := json.Marshal(Approval{
		ID: a.ID, Principal: a.Principal, Role: a.Role, Tool: a.Tool, Title: a.Title, Node: a.Node, NodeLabel: a.NodeLabel, Lane: a.Lane,
		Created: a.Created, Expires: a.Expires, Snapshot: a.Snapshot,
	})
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM question WHERE expires_ms <= $1`, a.Created.UnixMilli()); err != nil { // nobody answered those
		return err
	}
	_, err = tx.Exec(`INSERT INTO question (id, body, expires_ms) VALUES ($1, $2, $3)`, a.ID, string(body), a.Expires.UnixMilli())
	return err
}

// forgetIn is for a question that has an end on record.
func forgetIn(tx *store.Tx, id string) error {
	_, err := tx.Exec(`DELETE FROM question WHERE id = $1`, id)
	return err
}

// closeForgotten closes the questions that were open when the gateway ended. Those whose time is
// over have expired.
func (c *Consent) closeForgotten(ctx context.Context) error {
	now := c.opts.Now()
	rows, err := c.opts.Store.Read().QueryContext(ctx, `SELECT body FROM question WHERE expires_ms > $1`, now.UnixMilli())
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	var closed []Approval
	for rows.Next() {
		var body string
		var a Approval
		if err := rows.Scan(&body); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "a question in the store cannot be read")
		}
		a.State, a.Closed, a.Answered = StateClosed, ClosedRestarted, now
		closed = append(closed, a)
	}
	if err := rows.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	if len(closed) == 0 {
		return nil
	}
	c.mu.Lock()
	for i := range closed {
		c.settled.put(closed[i])
	}
	c.mu.Unlock()
	c.opts.Log.Warn("consent.restarted", "questions", len(closed), "hint", "they are closed; a call that is made again is asked about anew")
	return c.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
		for i := range closed {
			a := &closed[i]
			if err := c.opts.Record(tx, "gateway.approval.closed", a.Principal,
				packet.ApprovalClosed{Approval: a.ID, Reason: string(ClosedRestarted)}); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`DELETE FROM question`)
		return err
	})
}
