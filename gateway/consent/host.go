package consent

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// HostAsk is the question whether a running call may connect to a host that it was not granted.
type HostAsk struct {
	Running
	Target   string         // "host:port"
	Key      string         // that a yes adds to the envelope, once
	Args     []byte         // canonical, of the call; kept while the question is open
	Evidence map[string]any // those that may be recorded
	Purpose  string
	Within   time.Duration // how long the call goes on; 0: it is not known
	Risk     string
	Envelope *policy.Summary // of the call as it runs
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
	if err := c.mayAsk(); err != nil {
		return HostSaid{}, err
	}
	p := c.hostQuestion(&h)
	asked, err := c.openRunning(ctx, &h.Running, p, packet.Asked{
		Host: h.Target, Risk: h.Risk, Escalated: p.Escalated, EnvelopeHash: h.Envelope.Hash,
	})
	if err != nil || !asked {
		return HostSaid{Denied: err == nil}, err
	}
	if err := c.awaitRunning(ctx, &h.Running, p); err != nil {
		return HostSaid{}, err
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

// hostQuestion makes the question about a host.
func (c *Consent) hostQuestion(h *HostAsk) *approval {
	now := c.opts.Now()
	expires := now.Add(approvalLife)
	if h.Within > 0 && h.Within < approvalLife {
		expires = now.Add(h.Within)
	}
	a := h.question(now, expires)
	a.Arguments, a.Hosts, a.Wants, a.Risk, a.Keys = shown(h.Evidence), []string{Plain(h.Target)}, Plain(h.Target), h.Risk, keysOf(h)
	a.Escalated, a.Envelope, a.Choices = []string{h.Key}, h.Envelope, choices(KindCall)
	return &approval{
		Approval: a, done: make(chan struct{}), hosts: []string{h.Target}, raw: keepArgs(h.Args), purpose: h.Purpose,
		key: strings.Join([]string{"host", string(h.Principal), string(h.Tool), string(h.Node), string(h.Lane), h.Snapshot, h.Target}, "\x00"),
		// No call has such arguments: the grant covers none but the one that waits here.
		args: c.digest([]byte("host\x00" + string(h.Call) + "\x00" + h.Target + "\x00" + newID(""))),
	}
}

// keysOf are the capability keys through which the call reaches hosts: what the question touches.
func keysOf(h *HostAsk) []string {
	return slices.DeleteFunc(slices.Clone(h.Envelope.Grants),
		func(k string) bool { return k != capabilities.KeyEgress && k != capabilities.KeyFetch })
}
