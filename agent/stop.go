package agent

import (
	"context"
	"path/filepath"
	"time"

	"github.com/handrail-dev/handrail/agent/guard"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Halt pulls this device's stop switch, as its person may at any time: running
// calls end, what goes on between calls pauses, and none starts until a person
// resumes.
func (a *Agent) Halt(reason string) {
	a.opts.Log.Warn("node.stopped", "by", "person", "reason", reason)
	epoch, _ := a.stop.State()
	if err := a.stop.Set(epoch, true); err != nil {
		a.opts.Log.Error("stop.not_kept", "err", err)
	}
}

// SetStop turns the own stop switch of the node that lives in dir, whether it runs
// or not: one that runs notices within half a second, and before its next call.
func SetStop(dir string, on bool) error {
	s, err := guard.OpenStopSwitch(filepath.Join(dir, stopFile), "", nil)
	if err != nil {
		return err
	}
	epoch, stopped := s.State()
	if stopped && !on {
		epoch++ // what was on its way when it was stopped never runs
	}
	return s.Set(epoch, on)
}

// stopLook is how often a running node looks for what SetStop wrote; it also looks
// before each call.
const stopLook = 200 * time.Millisecond

// heedOwner takes over what another process says about the stop switch.
func (a *Agent) heedOwner(ctx context.Context) error {
	tick := time.NewTicker(stopLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			a.stop.Look()
		}
	}
}

// heedSite takes over what the gateway says about the site's stop switch.
func (a *Agent) heedSite(epoch uint64, on bool) {
	if was, stopped := a.stop.Site(); on && (epoch != was || !stopped) {
		a.opts.Log.Warn("node.stopped", "by", "gateway", "epoch", epoch)
	}
	if err := a.stop.SetSite(epoch, on); err != nil {
		a.opts.Log.Error("stop.not_kept", "err", err)
	}
}

// onTurn is told by the stop switch, in order.
func (a *Agent) onTurn(stopped bool) {
	if stopped {
		a.runner.StopAll()
	}
	a.runner.Pause(stopped)
	a.board.Turned()
}

// stops returns both switches as the gateway is told them.
func (a *Agent) stops() wire.Stop {
	epoch, on := a.stop.State()
	site, siteOn := a.stop.Site()
	return wire.Stop{Epoch: epoch, On: on, SiteEpoch: site, SiteOn: siteOn}
}
