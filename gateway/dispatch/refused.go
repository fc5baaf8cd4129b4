package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// tellAwayEvery is how often the calls that were turned away are recorded.
const tellAwayEvery = time.Second

// kindTurnedAway records calls that were turned away before dispatch: how many, whose, of
// which tools.
const kindTurnedAway ledger.Kind = "gateway.calls.muted"

// Refuse ends a call that its surface refuses: it is recorded and counted as one that is
// refused here, without its arguments. The result says e, or that the principal is over its
// rate for refusals.
func (d *Dispatcher) Refuse(ctx context.Context, r Request, e *capabilities.Error) capabilities.Result {
	t := newTrail(&r, time.Now())
	if err := d.turnedAway(r.Principal, r.Tool, t.began); err != nil {
		return t.failure(err)
	}
	_, t.known = d.opts.Registry.Get(r.Tool)
	d.enters(t)
	return d.refuse(ctx, t, e)
}

// turnedAway refuses the call of a principal that is over its rate for refusals, before
// anything of it is looked at. It is counted, not recorded by itself.
func (d *Dispatcher) turnedAway(who capabilities.PrincipalID, tool capabilities.ToolID, now time.Time) *capabilities.Error {
	if _, known := d.opts.Registry.Get(tool); !known {
		tool = "" // a name out of the air is not recorded
	}
	return d.refusals.TurnAway(who, tool, now)
}

// tellTurnedAway records, for each principal, how many calls nobody looked at.
func (d *Dispatcher) tellTurnedAway(ctx context.Context) {
	for who, tools := range d.refusals.Take() {
		var all uint64
		list := make([]packet.TurnedAwayOf, 0, len(tools))
		for _, tool := range slices.Sorted(maps.Keys(tools)) {
			all += tools[tool]
			list = append(list, packet.TurnedAwayOf{Tool: tool, Calls: tools[tool]})
		}
		d.opts.Log.Warn("tools.dispatch.muted", "principal", who, "refusals", all)
		err := d.opts.Ledger.Append(ctx, ledger.Draft{Kind: kindTurnedAway, Principal: who, Body: packet.TurnedAway{Refusals: all, Tools: list}})
		if err != nil && ctx.Err() == nil {
			d.opts.Log.Error("tools.dispatch.unrecorded", "principal", who, "refusals", all, "err", err)
		}
	}
}
