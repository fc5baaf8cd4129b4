package consent

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// lookWithin bounds how long a device is asked what a call would meet there.
const lookWithin = time.Second

// fetchScene has the rest of what is told of a question found out; done is closed when that is
// over, after lookWithin at the latest.
func (c *Consent) fetchScene(p *approval, find func(context.Context) (*Where, []byte)) (done <-chan struct{}) {
	over := make(chan struct{})
	if find == nil {
		close(over)
		return over
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	p.looked = cancel
	go func() {
		defer close(over)
		defer cancel()
		where, picture := find(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pending[p.ID] != p || where == nil && picture == nil {
			return
		}
		p.where, p.picture = where, picture
		if where != nil && where.Terminal && p.Risk != "" {
			p.Risk = riskOfCommands
		}
		c.tellLocked()
	}()
	return over
}

// riskOfCommands is what a person is told of typing where commands are taken, whatever the
// tool's keys derive to: it is never lower.
const riskOfCommands = "critical"

// enterLocked counts one more caller that waits.
func (p *approval) enterLocked(token string) {
	p.Waiting++
	p.entered++
	if token != "" {
		if p.tokens == nil {
			p.tokens = map[string]bool{}
		}
		p.tokens[token] = true
	}
}

// heed has a question say whether its caller is there, until over is called, which counts
// it as waiting again.
func (c *Consent) heed(p *approval, attended func() (bool, <-chan struct{})) (over func()) {
	if attended == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		there := true
		count := func(now bool) {
			if now == there {
				return
			}
			there = now
			c.mu.Lock()
			defer c.mu.Unlock()
			if now {
				p.Waiting++
			} else {
				p.Waiting--
				p.MayReturn = true
			}
			if c.pending[p.ID] == p {
				c.tellLocked()
			}
		}
		for {
			now, changed := attended()
			count(now)
			select {
			case <-changed:
			case <-end:
				count(true)
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// leave counts one caller less; told: it was told to come back.
func (c *Consent) leave(p *approval, told bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Waiting--
	p.entered--
	p.MayReturn = p.MayReturn || told
	if c.pending[p.ID] == p {
		c.tellLocked()
	}
}

// abandoned closes a question whose call was cancelled, unless others wait with it or may
// come back.
func (c *Consent) abandoned(p *approval, token string) {
	why := ClosedCancelled
	if token != "" && !c.opts.Valid(token) {
		why = ClosedToken
	}
	c.close(why, func(q *approval) bool { return q == p && q.entered == 0 })
}

// Withdraw closes a question whose call nobody wants any more.
func (c *Consent) Withdraw(id string) {
	c.close(ClosedCancelled, func(p *approval) bool { return p.ID == id })
}

// LaneEnded closes the questions of a lane that is over.
func (c *Consent) LaneEnded(lane capabilities.LaneID) {
	c.close(ClosedLane, func(p *approval) bool { return p.Lane == lane })
}

// TokenRevoked closes the questions that were asked with a token alone.
func (c *Consent) TokenRevoked(token string) {
	c.close(ClosedToken, func(p *approval) bool {
		if !p.tokens[token] {
			return false
		}
		delete(p.tokens, token)
		return len(p.tokens) == 0
	})
}

// superseded is why a call is not asked about any more: the policy that it was decided by is not in
// force. It is decided anew, or made again.
func superseded() *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeConflict, "Nobody is asked any more: %s.", ClosedPolicy.words()).
		WithHint("Call again: it is judged by the policy of now.")
}

// Supersede closes the questions that were asked under another policy than the one in force: no yes
// to them would count. The questions of a provider's program rest on no policy.
func (c *Consent) Supersede() {
	now := c.opts.Snapshot()
	c.close(ClosedPolicy, func(p *approval) bool { return p.Form == nil && p.Snapshot != now })
}

// close ends the questions that nobody wants an answer to, and writes that down. An answer
// that came first counts, as ever.
func (c *Consent) close(why Closure, gone func(*approval) bool) {
	var closed []Approval
	c.mu.Lock()
	for _, p := range c.pending {
		if p.claimed || !gone(p) {
			continue
		}
		p.Closed = why
		switch why {
		case ClosedPolicy:
			p.no = superseded()
		case ClosedToken:
			p.no = capabilities.Errorf(capabilities.CodeUnauthenticated, "Nobody is asked any more: %s.", why.words())
		default:
			p.no = capabilities.Errorf(capabilities.CodeCancelled, "Nobody is asked any more: %s.", why.words())
		}
		c.endLocked(p, StateClosed, c.opts.Now())
		closed = append(closed, p.Approval)
	}
	c.mu.Unlock()
	for _, a := range closed {
		err := c.opts.Store.Write(context.Background(), func(tx *store.Tx) error {
			if err := forgetIn(tx, a.ID); err != nil {
				return err
			}
			return c.opts.Record(tx, "gateway.approval.closed", a.Principal, packet.ApprovalClosed{Approval: a.ID, Reason: string(why)})
		})
		if err != nil { // it is closed all the same: nothing was allowed by it
			c.opts.Log.Warn("consent.close_unrecorded", "approval", a.ID, "err", err)
		}
	}
}

// words says a closure in a sentence.
func (w Closure) words() string {
	switch w {
	case ClosedLane:
		return "its lane has ended"
	case ClosedToken:
		return "the token of its caller was revoked"
	case ClosedStopped:
		return "everything, or its device, was stopped"
	case ClosedRestarted:
		return "the gateway restarted"
	case ClosedPolicy:
		return "another policy is in force"
	}
	return "its call was cancelled"
}
