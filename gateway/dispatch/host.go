package dispatch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// wanted are the hosts that a running call wanted and was not granted, as they were asked about.
type wanted struct {
	mu      sync.Mutex
	asked   int
	granted []string // "host:port"
	denied  []string // by a person
}

// enter counts one more question; false: there were as many as may be.
func (w *wanted) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return w.asked <= wire.MaxHostAsks
}

// refused reports whether what a node says was refused is a host to which a person said no.
func (w *wanted) refused(detail string) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	target, _, _ := strings.Cut(detail, " ") // a provider's says more after it
	return slices.Contains(w.denied, target)
}

// asksHosts reports whether a person may be asked about hosts while the call runs: it reaches hosts
// by the egress of its node, in a class that has a network, and by nobody's script. A call inside
// another has at most the hosts of that one.
func (o *order) asksHosts() bool {
	return o.node != nil && !o.isStep() && o.req.inside == nil && o.sealed.Isolation.Rank() >= capabilities.ClassT2.Rank() &&
		(slices.Contains(o.sealed.Grants, capabilities.KeyEgress) || slices.Contains(o.sealed.Grants, capabilities.KeyFetch))
}

// host asks a person about one host that a running call wants, after policy. A yes is a grant for
// this call and host alone: the envelope is made again with the host as a one-time addition, and
// recorded before the node is told (S1-38). The first envelope stays as it was.
func (d *Dispatcher) host(ctx context.Context, o *order, m *wire.HostAsk) *wire.HostAnswer {
	log := d.opts.Log.With("hop", capabilities.HopRun, "call", o.id, "tool", o.tool, "target", m.Target)
	no := func(code capabilities.Code, err error) *wire.HostAnswer {
		log.Info("tools.dispatch.host", "code", code, "err", err)
		return &wire.HostAnswer{Number: m.Number, Code: code}
	}
	if !o.wanted.enter() {
		return no(capabilities.CodeConsentUnavailable, nil)
	}
	if o.engine.SnapshotID() != d.opts.Policy().SnapshotID() { // what it was decided on is over
		return no(capabilities.CodeConsentUnavailable, nil)
	}
	key := capabilities.NarrowDomains + m.Target
	r := o.policyRequest(o.node)
	r.Wants, r.Time = m.Target, time.Now()
	if v := o.engine.Decide(r); v.Effect == policy.Deny || slices.Contains(v.Withheld, capabilities.KeyEgress) {
		return no(capabilities.CodeDeniedByPolicy, nil)
	}
	said, err := d.opts.Consent.AskHost(ctx, consent.HostAsk{
		Running: o.running(), Target: m.Target, Key: key, Args: o.args.Canonical, Evidence: o.shown(o.desc.EvidenceArgs(o.args.Canonical)),
		Purpose: o.args.Purpose, Within: time.Until(o.began.Add(o.waited + o.args.Timeout)), Risk: string(o.sealed.Risk),
		Envelope: o.sealed.Summary(),
	})
	switch {
	case err != nil:
		return no(capabilities.CodeConsentUnavailable, err)
	case said.Denied:
		o.wanted.mu.Lock()
		o.wanted.denied = append(o.wanted.denied, m.Target)
		o.wanted.mu.Unlock()
		return no(capabilities.CodeConsentDenied, nil)
	case said.Permit.Grant == "":
		return no(capabilities.CodeConsentUnavailable, nil)
	}
	sealed, err := d.widen(ctx, o, key, said)
	if err != nil {
		log.Error("tools.dispatch.host", "err", err)
		return no(capabilities.CodeConsentUnavailable, err)
	}
	log.Info("tools.dispatch.host", "grant", said.Permit.Grant, "envelope", sealed.HashHex())
	return &wire.HostAnswer{Number: m.Number, Envelope: sealed.Bytes}
}

// widen makes the envelope of a running call again with one more host, and records it. Each such
// envelope adds to the first one all that was granted until then: it is one hop.
func (d *Dispatcher) widen(ctx context.Context, o *order, key string, said consent.HostSaid) (*policy.Sealed, error) {
	o.wanted.mu.Lock()
	defer o.wanted.mu.Unlock()
	in, refused := o.envelope(&o.verdict, o.grant)
	if refused != nil {
		return nil, refused
	}
	x := &policy.Escalation{
		Code: policy.EscalatedByCall, Delta: append(slices.Clone(o.wanted.granted), key), From: o.sealed.HashHex(), Grant: said.Permit.Grant,
		Reason: "a person let this one call connect to " + strings.TrimPrefix(key, capabilities.NarrowDomains),
	}
	if before := in.Escalation; before != nil {
		x.From, x.Delta = before.From, append(x.Delta, before.Delta...)
	}
	now := time.Now()
	in.Escalation, in.Expires, in.Created = x, now.Add(in.Expires.Sub(in.Created)), now
	sealed, err := policy.BuildEnvelope(in)
	if err != nil {
		return nil, err
	}
	body := &packet.Decision{
		Effect: policy.Allow, Policies: o.verdict.Determining, Snapshot: sealed.Snapshot, EnvelopeHash: sealed.HashHex(), Envelope: sealed.Bytes,
		Grant: said.Permit.Grant, Approval: said.Approval, Reason: x.Reason, Role: o.req.Role,
	}
	if err := d.opts.Ledger.Append(context.WithoutCancel(ctx), o.draft(ledger.KindCallEscalated, body)); err != nil {
		return nil, err
	}
	o.wanted.granted = append(o.wanted.granted, key)
	return sealed, nil
}
