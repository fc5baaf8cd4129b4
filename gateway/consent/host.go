package consent

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/store"
)

// HostAsk is the question whether a running call may connect to a host that it was not granted.
type HostAsk struct {
	Call      capabilities.CallID
	Principal capabilities.PrincipalID // whose call it is
	Role      string
	Token     string
	Tool      capabilities.ToolID
	Title     string
	Node      capabilities.NodeID
	NodeLabel string
	Lane      capabilities.LaneID
	Target    string         // "host:port"
	Key       string         // that a yes adds to the envelope, once
	Args      []byte         // canonical, of the call; kept while the question is open
	Evidence  map[string]any // those that may be recorded
	Purpose   string
	Within    time.Duration // how long the call goes on; 0: it is not known
	Risk      string
	Snapshot  string
	Envelope  *policy.Summary // of the call as it runs
}

// HostSaid is what came of it: a grant for this call and host, a person's no, or neither, where
// nobody answered.
type HostSaid struct {
	Permit   Permit
	Approval string
	Denied   bool
}

// AskHost asks a person, and waits until they answer, the question's time is over, or ctx ends. A
// yes is a grant for this call and host, used with the answer. A no holds for a while for the same
// tool and host in the lane, so that repeating a call does not ask again. CodeOverloaded for a
// caller whose calls ask too much; CodeConsentUnavailable where nobody is asked.
func (c *Consent) AskHost(ctx context.Context, h HostAsk) (HostSaid, error) {
	if c.opts.Wait < 0 {
		return HostSaid{}, &capabilities.Error{Code: capabilities.CodeConsentUnavailable}
	}
	if c.opts.Stopped != nil && c.opts.Stopped() {
		return HostSaid{}, stoppedMeanwhile()
	}
	p, err := c.openHost(ctx, &h)
	if err != nil || p == nil {
		return HostSaid{Denied: err == nil}, err
	}
	select {
	case <-p.done:
		c.leave(p, false)
	case <-ctx.Done():
		c.leave(p, false)
		c.abandoned(p, h.Token)
		return HostSaid{}, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	said := HostSaid{Approval: p.ID, Denied: p.State == StateDenied}
	if g := c.grants[p.grant]; g != nil && p.no == nil {
		delete(c.grants, g.ID) // it is used
		said.Permit = Permit{Grant: g.ID, Kind: KindCall}
	}
	return said, nil
}

// openHost opens the question about a host; nil: a person said no to it a moment ago.
func (c *Consent) openHost(ctx context.Context, h *HostAsk) (*approval, error) {
	now := c.opts.Now()
	expires := now.Add(approvalLife)
	if h.Within > 0 && h.Within < approvalLife {
		expires = now.Add(h.Within)
	}
	key := strings.Join([]string{"host", string(h.Principal), string(h.Tool), string(h.Node), string(h.Lane), h.Snapshot, h.Target}, "\x00")
	// No call has such arguments: the grant covers none but the one that waits here.
	args := c.digest([]byte("host\x00" + string(h.Call) + "\x00" + h.Target + "\x00" + newID("")))
	p := &approval{key: key, args: args, hosts: []string{h.Target}, done: make(chan struct{}), raw: keepArgs(h.Args), purpose: h.Purpose, Approval: Approval{
		ID: newID("a-"), State: StatePending, Principal: h.Principal, Role: h.Role, Tool: h.Tool, Title: h.Title, Node: h.Node, NodeLabel: h.NodeLabel, Lane: h.Lane,
		Arguments: shown(h.Evidence), Hosts: []string{Plain(h.Target)}, Wants: Plain(h.Target), Risk: h.Risk, Keys: keysOf(h), Escalated: []string{h.Key}, Envelope: h.Envelope,
		Longest: KindCall, Choices: choices(KindCall), Snapshot: h.Snapshot, Created: now, Expires: expires,
	}}
	c.mu.Lock()
	c.expireLocked(now)
	if until, ok := c.denied[key]; ok && now.Before(until) {
		c.mu.Unlock()
		return nil, nil
	}
	if err := c.roomLocked(h.Principal, now); err != nil {
		c.mu.Unlock()
		return nil, err
	}
	c.pending[p.ID] = p
	p.enterLocked(h.Token)
	c.tellLocked()
	c.mu.Unlock()
	c.opts.Log.Info("consent.asks_host", "approval", p.ID, "call", h.Call, "tool", h.Tool, "host", h.Target, "principal", h.Principal, "node", h.Node, "lane", h.Lane)
	err := c.opts.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		return c.opts.Record(tx, "gateway.approval.asked", h.Principal, map[string]any{
			"approval": p.ID, "call": h.Call, "tool": h.Tool, "node": h.Node, "lane": h.Lane, "host": h.Target, "risk": h.Risk, "escalated_keys": p.Escalated, "expires_at": expires,
			"policy_snapshot_id": h.Snapshot, "envelope_hash": h.Envelope.Hash,
		})
	})
	if err != nil {
		c.endQuestion(p, StateExpired, capabilities.AsError(err))
		return nil, err
	}
	c.expireLater(p)
	return p, nil
}

// keysOf are the capability keys through which the call reaches hosts: what the question touches.
func keysOf(h *HostAsk) []string {
	return slices.DeleteFunc(slices.Clone(h.Envelope.Grants), func(k string) bool { return k != capabilities.KeyEgress && k != capabilities.KeyFetch })
}
