package dispatch

import (
	"context"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/durable"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/store"
)

// order is a permitted call with its row.
type order struct {
	*permitted
	row opencalls.Call
}

// committed is an order whose request, decision and intent are durable. Package durable
// makes one only after one commit took all three, and commit alone asks it to. Nothing else
// can be sent.
type committed = durable.Committed[*order]

// commit is hop 7: request, decision, the grant's use and the intent become durable in one
// commit, or nothing executes. also adds to it; nil: nothing.
func (d *Dispatcher) commit(ctx context.Context, p *permitted, also func(*store.Tx) error) (*committed, *capabilities.Error) {
	if err := d.quarantined(p.routed); err != nil { // something may have drifted while a person was asked
		return nil, err
	}
	o := &order{permitted: p, row: opencalls.Call{
		ID: p.id, Principal: p.principal, Person: p.asker().Person, Request: p.req.RequestID, Lane: p.lane, Tool: p.tool,
		Requested: p.args.NodeID, Node: p.trail.node, ArgsMAC: p.mac[:], State: opencalls.Open, Created: p.began, Parent: p.parent,
	}}
	if p.node != nil {
		o.row.Recall = p.node.Recall
	}
	intent := packet.Dispatch{
		Target: "gateway", Grants: p.grants(), Isolation: p.sealed.Isolation, Given: p.ready.Isolation, DeadlineMS: p.args.Timeout.Milliseconds(),
	}
	if p.node != nil {
		intent.Target = "node"
	}
	alone, unspent := d.opts.Store.Member() == "", func() {}
	if alone {
		var refused *capabilities.Error
		if unspent, refused = d.spend(p); refused != nil {
			return nil, refused
		}
	}
	c, err := durable.Commit(ctx, d.opts.Store, d.opts.Ledger, o, durable.Packets{
		Request: p.requestDraft(), Decisions: p.decisionDrafts(p.verdict.Effect), Intent: p.draft(ledger.KindCallDispatch, &intent),
	}, func(tx *store.Tx) error {
		if err := d.halted(); err != nil { // a stop is in effect here before it is recorded, wherever it was made
			return err
		}
		if p.permit.Grant != "" {
			if err := d.opts.Consent.SpendIn(tx, p.permit); err != nil {
				return err
			}
		}
		if p.req.Task != "" && d.opts.Deferred != nil {
			if err := d.opts.Deferred.StartIn(tx, p.req.Task, p.id); err != nil {
				return err
			}
		}
		if _, kept := p.repeatKey(); kept && p.desc.Replays() { // as its result is
			if err := d.open.KeepArgsIn(tx, p.id, p.req.Args); err != nil {
				return err
			}
		}
		if also != nil {
			if err := also(tx); err != nil {
				return err
			}
		}
		if err := d.open.OpenIn(tx, &o.row); err != nil || alone {
			return err
		}
		unspent() // it runs again
		again, err := d.spendIn(ctx, p)
		if unspent = func() {}; err == nil {
			unspent = again
		}
		return err
	})
	if err != nil {
		unspent()
		e := capabilities.AsError(err)
		if e.Code == capabilities.CodeInternal {
			e = capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
		}
		if e.Code == capabilities.CodeLedgerUnavailable { // any other is refused, and that is recorded
			d.opts.Log.Error("tools.dispatch.unrecorded", "hop", capabilities.HopCommit, "call", p.id, "tool", p.tool, "err", err)
		}
		return nil, because(ctx, e)
	}
	p.passed(capabilities.HopCommit)
	if p.req.Began != nil {
		p.req.Began(p.id)
	}
	d.opts.Log.Info("tools.dispatch.decision", "hop", capabilities.HopDecide, "call", p.id, "tool", p.tool, "principal", p.principal,
		"lane", p.lane, "node", p.trail.node, "effect", p.verdict.Effect, "policies", p.verdict.Determining)
	return c, nil
}

// grants is what the ticket carries: the effective grants, the ID of the person's grant and,
// where policy accepted it in so many words, the degraded isolation.
func (p *permitted) grants() []string {
	grants := slices.Clip(p.sealed.Grants)
	if p.permit.Grant != "" {
		grants = append(grants, policy.GrantPrefix+p.permit.Grant)
	}
	if p.accepts {
		grants = append(grants, policy.AcceptDegraded)
	}
	return grants
}
