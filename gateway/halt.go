package gateway

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/stop"
	"github.com/handrail-dev/handrail/gateway/store"
)

// heedWithin bounds how long a turn of the stop switch waits for the nodes' word. It
// is in effect before, and whoever is silent learns it when it comes back.
const heedWithin = 2 * time.Second

// brake is the stop switch as the surfaces turn it.
type brake struct{ g *Gateway }

// State returns the switch.
func (b brake) State() stop.State { return b.g.Switch.State() }

// Stop ends everything.
func (b brake) Stop(ctx context.Context, by capabilities.PrincipalID, reason string) (rest.Halted, error) {
	return b.g.Stop(ctx, by, reason)
}

// Resume lets calls run again.
func (b brake) Resume(ctx context.Context, by capabilities.PrincipalID, reason string) (rest.Halted, error) {
	return b.g.Resume(ctx, by, reason)
}

// Stop ends everything and lets nothing begin until Resume: running calls end, at
// the nodes too, grants are revoked, questions closed, new calls and grants refused.
// It is in effect when the first of its steps is, before anything is written down;
// with an error it could not be made durable.
func (g *Gateway) Stop(ctx context.Context, by capabilities.PrincipalID, reason string) (rest.Halted, error) {
	var h rest.Halted
	var err error
	h.State, err = g.Switch.Set(ctx, stop.Turn{
		On: true, By: by, Reason: reason,
		Effect: func(epoch uint64) {
			go g.spreadStop()
			go g.Nodes.TellStop(epoch, true) // bounds itself; awaitStop waits for what it does
			h.Calls = g.Dispatcher.StopAll()
			h.Grants = g.Consent.Halt("")
		},
		In:     func(tx *store.Tx) error { return g.Consent.HaltIn(tx, "") },
		Detail: func() packet.StopEnded { return packet.StopEnded{Calls: h.Calls, Grants: h.Grants} },
	})
	if h.Epoch != 0 {
		h.Nodes = g.awaitStop(ctx, h.Epoch)
	}
	return h, err
}

// Resume lets calls run again, also at the nodes that nobody stopped at the device. The grants of
// before stay revoked.
func (g *Gateway) Resume(ctx context.Context, by capabilities.PrincipalID, reason string) (rest.Halted, error) {
	state, err := g.Switch.Set(ctx, stop.Turn{By: by, Reason: reason, Effect: func(epoch uint64) { go g.Nodes.TellStop(epoch, false) }})
	if err != nil {
		return rest.Halted{State: state}, err
	}
	return rest.Halted{State: state, Nodes: g.awaitStop(ctx, state.Epoch)}, nil
}

func (g *Gateway) awaitStop(ctx context.Context, epoch uint64) nodes.Heeded {
	ctx, cancel := context.WithTimeout(ctx, heedWithin)
	defer cancel()
	return g.Nodes.AwaitStop(ctx, epoch)
}

// nodeStop is what a node said of its own stop switch.
type nodeStop struct {
	node    capabilities.NodeID
	own     stop.Own
	stopped bool // since it was heard of last
}

// nodeTurned is told by the node plane, with its locks held: what was granted on a
// device ends as soon as its person stops it, and what that leaves to be written
// down follows.
func (g *Gateway) nodeTurned(node capabilities.NodeID, epoch uint64, on bool) {
	own := stop.Own{Epoch: epoch, Stopped: on}
	stopped, changed := g.Switch.Heard(node, own)
	if !changed {
		return
	}
	if stopped {
		g.Consent.Halt(node)
	}
	select {
	case g.turned <- nodeStop{node, own, stopped}:
	default:
		// So many at once are told again when they reconnect: what is not written down
		// is only what a restart in between would forget.
		g.log.Warn("node.stop_unrecorded", "node", node)
	}
}

// keepTurns writes down what nodes said of their stop switches.
func (g *Gateway) keepTurns(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case t := <-g.turned:
			err := g.Switch.Keep(ctx, t.node, t.own, func(tx *store.Tx) error {
				if !t.stopped {
					return nil
				}
				return g.Consent.HaltIn(tx, t.node)
			})
			if err != nil && ctx.Err() == nil {
				g.log.Error("node.stop_unrecorded", "node", t.node, "err", err)
			}
		}
	}
}

// laneClosed has nodes free what a lane held: a browser's cookies must not be met by
// whoever uses its name next.
func (g *Gateway) laneClosed(l capabilities.LaneID, node capabilities.NodeID) {
	if node == "" {
		g.Nodes.EndLane(l)
		g.Consent.LaneEnded(l)
		return
	}
	g.Nodes.CloseLane(node, l)
}
