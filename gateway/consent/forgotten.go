package consent

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A question lies in memory, because it shows arguments. The store knows that it was asked, so that
// the next start can say what became of it: it is closed, and its caller, who makes the same call
// again, has it asked anew.

// noteIn has the next start know of a question.
func noteIn(tx *store.Tx, a *Approval, member string) error {
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
	_, err = tx.Exec(`INSERT INTO question (id, body, expires_ms, member) VALUES ($1, $2, $3, $4)`, a.ID, string(body), a.Expires.UnixMilli(),
		member)
	return err
}

// forgetIn is for a question that has an end on record.
func forgetIn(tx *store.Tx, id string) error {
	_, err := tx.Exec(`DELETE FROM question WHERE id = $1`, id)
	return err
}

// closeForgotten closes the questions that were open when the gateway ended. Those whose time is
// over have expired. Where several gateways serve, those of the others wait for an answer: GoneIn
// closes them, once their gateway is out.
func (c *Consent) closeForgotten(ctx context.Context) error {
	var some int
	if err := c.opts.Store.Read().QueryRowContext(ctx, `SELECT COUNT(*) FROM question`).Scan(&some); err != nil || some == 0 {
		return err
	}
	var closed []Approval
	if err := c.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) (err error) {
		if c.opts.Store.Member() != "" {
			closed, err = c.closeIn(tx, `DELETE FROM question WHERE member = '' RETURNING body, expires_ms`)
		} else {
			closed, err = c.closeIn(tx, `DELETE FROM question WHERE id <> '' RETURNING body, expires_ms`)
		}
		return err
	}); err != nil || len(closed) == 0 {
		return err
	}
	c.opts.Log.Warn("consent.restarted", "questions", len(closed), "hint", "they are closed; a call that is made again is asked about anew")
	return nil
}

// GoneIn closes, as part of tx, what a gateway asked that was put out: nobody waits for an answer
// there.
func (c *Consent) GoneIn(tx *store.Tx, member string) error {
	_, err := c.closeIn(tx, `DELETE FROM question WHERE member = $1 RETURNING body, expires_ms`, member)
	return err
}

// closeIn records the end of questions that it takes out of the store.
func (c *Consent) closeIn(tx *store.Tx, take string, args ...any) ([]Approval, error) {
	rows, err := tx.Query(take, args...)
	if err != nil {
		return nil, err
	}
	now := c.opts.Now()
	var closed []Approval
	for rows.Next() {
		var body string
		var expires int64
		var a Approval
		if err := rows.Scan(&body, &expires); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			return nil, errors.Join(capabilities.Wrap(capabilities.CodeInternal, err, "a question in the store cannot be read"), rows.Close())
		}
		if expires > now.UnixMilli() {
			a.State, a.Closed, a.Answered = StateClosed, ClosedRestarted, now
			closed = append(closed, a)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for i := range closed {
		a := &closed[i]
		if err := c.opts.Record(tx, "gateway.approval.closed", a.Principal,
			packet.ApprovalClosed{Approval: a.ID, Reason: string(ClosedRestarted)}); err != nil {
			return nil, err
		}
	}
	tx.OnCommit(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range closed {
			c.settled.put(closed[i])
		}
		c.tellLocked()
	})
	return closed, nil
}
