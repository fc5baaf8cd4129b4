package dispatch

import (
	"context"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/form"
	"github.com/handrail-dev/handrail/capabilities/sealed"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// converse orders a call for which people may be asked. A form of its program becomes a question
// beside those of policy, and what a person fills in goes sealed to the node; the call's time
// stands still meanwhile. The caller is never asked, and never told what was filled in. About a
// host a person is asked within the call's time.
func (d *Dispatcher) converse(ctx context.Context, c *committed, clock *capabilities.Timeout,
	progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	o, t := c.Of(), d.ticket(c)
	t.Trace = o.traced.onward().String()
	var stood atomic.Int64
	var elicit func(context.Context, *wire.Elicit) *wire.Elicited
	if o.desc.Elicits {
		elicit = func(ctx context.Context, m *wire.Elicit) *wire.Elicited {
			defer clock.Pause()()
			defer func(asked time.Time) { stood.Add(int64(time.Since(asked))) }(time.Now())
			return d.elicit(ctx, o, t, m)
		}
	}
	var host func(context.Context, *wire.HostAsk) *wire.HostAnswer
	if o.asksHosts() {
		host = func(ctx context.Context, m *wire.HostAsk) *wire.HostAnswer { return d.host(ctx, o, m) }
	}
	answer, blobs, err := d.opts.Nodes.Converse(ctx, o.node.ID, t, progress, elicit, host)
	o.waited += time.Duration(stood.Load())
	return answer, blobs, err
}

// running is the call for questions that are asked while it runs.
func (o *order) running() consent.Running {
	node := o.policyRequest(o.node).Node
	return consent.Running{
		Call: o.id, Principal: o.principal, Role: o.req.Role, Token: o.req.Token, Tool: o.tool, Title: o.desc.Title,
		Node: node.ID, NodeLabel: node.Label, Lane: o.lane, Snapshot: o.engine.SnapshotID(),
	}
}

// elicit has one form answered. Anything that keeps a person from answering is a cancelled form:
// the program decides how its call goes on.
func (d *Dispatcher) elicit(ctx context.Context, o *order, t *wire.Ticket, m *wire.Elicit) *wire.Elicited {
	no := &wire.Elicited{Number: m.Number, Action: capabilities.ElicitCancel}
	asked, err := form.Decode(m.Form)
	if err != nil {
		d.opts.Log.Warn("tools.dispatch.elicit", "hop", capabilities.HopRun, "call", o.id, "tool", o.tool, "err", err)
		return no
	}
	reply, err := d.opts.Consent.Elicit(ctx, consent.Elicitation{
		Running: o.running(), Provider: o.desc.Provider, Form: asked,
		Digest: func(content []byte) string { mac := o.key.MAC(content); return hex.EncodeToString(mac[:]) },
	})
	if err != nil {
		d.opts.Log.Info("tools.dispatch.elicit", "hop", capabilities.HopRun, "call", o.id, "tool", o.tool, "err", err)
		return no
	}
	if reply.Action != capabilities.ElicitAccept {
		return &wire.Elicited{Number: m.Number, Action: reply.Action}
	}
	defer reply.Content.Wipe()
	bytes, err := sealed.Seal(m.Key, sealed.Binding{Node: t.Node, Call: t.Call, Tool: t.Tool, Envelope: t.Envelope, Grants: t.Grants},
		reply.Content)
	if err != nil {
		d.opts.Log.Error("tools.dispatch.elicit", "hop", capabilities.HopRun, "call", o.id, "tool", o.tool, "err", err)
		return no
	}
	return &wire.Elicited{Number: m.Number, Action: reply.Action, Sealed: bytes}
}
