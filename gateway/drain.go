package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

const (
	// drainLook is how often it is looked whether calls still run.
	drainLook = 100 * time.Millisecond
	// lastWord is how long a gateway that ends waits for somebody to read that it does.
	lastWord = 2 * time.Second
)

// leaving is how far a gateway is that is drained. The zero value is one that serves.
type leaving struct {
	mu     sync.Mutex
	state  string // of api; empty: api.Serving
	by     capabilities.PrincipalID
	since  time.Time
	cancel context.CancelFunc // of the watch
	read   chan struct{}      // closed once somebody read that the gateway ends
	gone   chan struct{}      // closed to end Run
}

func (l *leaving) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state != ""
}

// over is closed when Run is to end.
func (l *leaving) over() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.goneLocked()
}

func (l *leaving) goneLocked() chan struct{} {
	if l.gone == nil {
		l.gone = make(chan struct{})
	}
	return l.gone
}

// end ends the watch of a gateway that ends otherwise.
func (l *leaving) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}

// drains returns the means by which people drain the gateway; nil: they cannot.
func (g *Gateway) drains() rest.Drain {
	if !g.opts.Drains {
		return nil
	}
	return drainer{g}
}

// drainer has a gateway end without cutting a call off.
type drainer struct{ g *Gateway }

// Drained returns how far that is.
func (d drainer) Drained(ctx context.Context) (api.Drain, error) {
	others, err := d.others(ctx)
	if err != nil {
		return api.Drain{}, err
	}
	l := &d.g.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	out := api.Drain{
		State: api.Serving, By: l.by, Since: l.since, Calls: d.calls(), Devices: d.g.Nodes.Here(), Gateways: others,
	}
	if l.state != "" {
		out.State = l.state
	}
	if l.state == api.Leaving && l.read != nil {
		close(l.read)
		l.read = nil
	}
	return out, nil
}

// calls are those that run here, and those of other gateways that go through here.
func (d drainer) calls() int { return d.g.Dispatcher.Underway() + d.g.Nodes.Relayed() }

// others returns how many other gateways of the site serve.
func (d drainer) others(ctx context.Context) (int, error) {
	if d.g.opts.Fleet == "" {
		return 0, nil
	}
	all, err := d.g.Store.Members(ctx)
	return max(len(all)-1, 0), err
}

// Drain lets no call begin, and has the gateway end once none runs. It is in effect once it is
// written down.
func (d drainer) Drain(ctx context.Context, by capabilities.PrincipalID) (api.Drain, error) {
	l := &d.g.leaving
	if l.begun() {
		return d.Drained(ctx)
	}
	if err := d.record(ctx, "gateway.drain.began", by); err != nil {
		return api.Drain{}, err
	}
	l.mu.Lock()
	if l.state == "" {
		l.state, l.by, l.since = api.Draining, by, time.Now().UTC().Truncate(time.Millisecond)
		d.g.Dispatcher.Admit(false)
		d.g.Nodes.TurnAway(true)
		watch, cancel := context.WithCancel(context.Background())
		l.cancel = cancel
		go d.watch(watch)
	}
	l.mu.Unlock()
	d.g.log.Info("gateway.draining", "by", by)
	return d.Drained(ctx)
}

func (d drainer) record(ctx context.Context, kind string, by capabilities.PrincipalID) error {
	others, err := d.others(ctx)
	if err != nil {
		return err
	}
	body := packet.Drain{Member: d.g.Store.Member(), Calls: d.calls(), Gateways: others}
	return d.g.Store.WriteTerminal(ctx, func(tx *store.Tx) error { return d.g.recordBy(tx, kind, by, body) })
}

// Undrain takes calls and devices again.
func (d drainer) Undrain(ctx context.Context, by capabilities.PrincipalID) (api.Drain, error) {
	l := &d.g.leaving
	l.mu.Lock()
	was := l.state
	if was == api.Draining {
		l.cancel()
		l.state, l.by, l.since = "", "", time.Time{}
		d.g.Nodes.TurnAway(false)
		d.g.Dispatcher.Admit(true)
	}
	l.mu.Unlock()
	switch was {
	case api.Leaving:
		return api.Drain{}, capabilities.Errorf(capabilities.CodeConflict, "nothing runs at this gateway any more, and it ends").
			WithHint("Start it again.")
	case api.Draining:
		if err := d.record(ctx, "gateway.drain.cancelled", by); err != nil {
			return api.Drain{}, err
		}
		d.g.log.Info("gateway.drain_cancelled", "by", by)
	}
	return d.Drained(ctx)
}

// watch sends devices to other gateways once no call of this one runs, and ends the gateway once
// nothing goes through it.
func (d drainer) watch(ctx context.Context) {
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if d.g.Dispatcher.Underway() > 0 {
			continue
		}
		others, err := d.others(ctx)
		if err != nil {
			continue // the store is away: the gateway ends by itself if that lasts
		}
		if others > 0 && d.g.Nodes.Move() > 0 || d.calls() > 0 {
			continue
		}
		d.leave(ctx)
		return
	}
}

// leave ends the gateway, unless that was cancelled.
func (d drainer) leave(ctx context.Context) {
	l := &d.g.leaving
	l.mu.Lock()
	if ctx.Err() != nil {
		l.mu.Unlock()
		return
	}
	read := make(chan struct{})
	l.state, l.read = api.Leaving, read
	gone := l.goneLocked()
	l.mu.Unlock()
	select {
	case <-read:
	case <-time.After(lastWord):
	}
	d.g.log.Info("gateway.drained")
	close(gone)
}
