package consent

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Running is the call that goes on while a person is asked something.
type Running struct {
	Call      capabilities.CallID
	Principal capabilities.PrincipalID // whose call it is
	Role      string
	Token     string
	Tool      capabilities.ToolID
	Title     string
	Node      capabilities.NodeID
	NodeLabel string
	Lane      capabilities.LaneID
	Snapshot  string
}

// question is what is the same in every question of the call.
func (r *Running) question(created, expires time.Time) Approval {
	return Approval{
		ID: newID("a-"), State: StatePending, Principal: r.Principal, Role: r.Role, Tool: r.Tool, Title: r.Title,
		Node: r.Node, NodeLabel: r.NodeLabel, Lane: r.Lane, Longest: KindCall, Snapshot: r.Snapshot, Created: created, Expires: expires,
	}
}

// mayAsk refuses where nobody is asked, or everything is stopped.
func (c *Consent) mayAsk() error {
	if c.opts.Wait < 0 {
		return &capabilities.Error{Code: capabilities.CodeConsentUnavailable}
	}
	if c.opts.Stopped != nil && c.opts.Stopped() {
		return stoppedMeanwhile()
	}
	return nil
}

// openRunning opens the question of a call that runs, and records it; body says what is
// of its kind. A person who said no to the same a moment ago is not asked: false.
func (c *Consent) openRunning(ctx context.Context, r *Running, p *approval, body packet.Asked) (bool, error) {
	body.Approval, body.Call, body.Tool, body.Node, body.Lane = p.ID, r.Call, r.Tool, r.Node, r.Lane
	body.ExpiresAt, body.Snapshot = p.Expires, r.Snapshot
	log := c.opts.Log.With("approval", p.ID, "call", r.Call, "tool", r.Tool, "host", p.Wants, "provider", p.Provider)
	c.mu.Lock()
	c.expireLocked(p.Created)
	if until, ok := c.denied[p.key]; ok && p.Created.Before(until) {
		c.mu.Unlock()
		return false, nil
	}
	err := c.roomLocked(r.Principal, p.Created)
	if p.Form == nil && p.Snapshot != c.opts.Snapshot() { // the call runs under an earlier policy
		err = superseded()
	}
	if err != nil {
		c.mu.Unlock()
		return false, err
	}
	c.pending[p.ID] = p
	p.enterLocked(r.Token)
	c.tellLocked()
	asked := p.Approval // whoever answers may change what is kept from here on
	c.mu.Unlock()
	log.Info("consent.asks", "principal", r.Principal, "node", r.Node, "lane", r.Lane)
	err = c.opts.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		if err := noteIn(tx, &asked, c.opts.Store.Member()); err != nil {
			return err
		}
		return c.opts.Record(tx, "gateway.approval.asked", r.Principal, body)
	})
	if err != nil {
		c.endQuestion(p, StateExpired, capabilities.AsError(err))
		return false, err
	}
	c.expireLater(p)
	return true, nil
}

// awaitRunning waits until the question is answered or its time is over; an error: ctx ended first.
func (c *Consent) awaitRunning(ctx context.Context, r *Running, p *approval) error {
	select {
	case <-p.done:
		c.leave(p, false)
		return nil
	case <-ctx.Done():
		c.leave(p, false)
		c.abandoned(p, r.Token)
		return capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
	}
}

// sweepAgain is how soon a question whose time is over is looked at again.
const sweepAgain = time.Second

// expireLater ends the question of a running call at its time. Others are ended by whoever looks
// next: their calls wait for no longer than they do.
func (c *Consent) expireLater(p *approval) {
	go func() {
		for {
			c.mu.Lock()
			left := p.Expires.Sub(c.opts.Now())
			if left <= 0 {
				c.expireLocked(c.opts.Now())
			}
			c.mu.Unlock()
			if left <= 0 {
				left = sweepAgain // it is being answered
			}
			wait := time.NewTimer(left)
			select {
			case <-p.done:
				wait.Stop()
				return
			case <-wait.C:
			}
		}
	}()
}
