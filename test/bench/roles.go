package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"sync/atomic"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// quiet logs as the real processes do without --verbose.
func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// order is what the parent tells a gateway or a node.
type order struct {
	Do   string `json:"do"` // "profile", "profiled", "packets"
	File string `json:"file,omitempty"`
}

// profile carries out the orders about CPU profiles.
func profile(o order) error {
	switch o.Do {
	case "profile":
		f, err := os.Create(o.File)
		if err != nil {
			return err
		}
		return pprof.StartCPUProfile(f)
	case "profiled":
		pprof.StopCPUProfile()
		return nil
	}
	return fmt.Errorf("no order %q", o.Do)
}

type gatewayConfig struct {
	Dir string `json:"dir"`
}

type gatewayReady struct {
	HTTP  string `json:"http"`
	QUIC  string `json:"quic"`
	Token string `json:"token"`
	Paste string `json:"paste"`
}

// gatewayRole is a whole gateway with the fixture family beside the real catalog.
func gatewayRole(raw json.RawMessage) (any, func(json.RawMessage) (any, error), func(), error) {
	var config gatewayConfig
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, nil, nil, err
	}
	rules := filepath.Join(config.Dir, "policy")
	if err := os.MkdirAll(rules, 0o700); err != nil {
		return nil, nil, nil, err
	}
	for name, text := range map[string][]byte{"default.cedar": policy.DefaultSource(), "fixture.cedar": []byte(site.Rules)} {
		if err := os.WriteFile(filepath.Join(rules, name), text, 0o600); err != nil {
			return nil, nil, nil, err
		}
	}
	cat, err := site.Catalog()
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	g, err := gateway.Open(ctx, gateway.Options{
		Dir: config.Dir, HTTP: "127.0.0.1:0", QUIC: "127.0.0.1:0", Catalog: cat, Version: "bench", Log: quiet(),
	})
	if err != nil {
		cancel()
		return nil, nil, nil, err
	}
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	stop := func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Fprintln(os.Stderr, "bench: gateway:", err)
		}
		g.Close()
	}
	_, secret, err := g.Tokens.Create(ctx, principal.Site, principal.Spec{Principal: "agent", Role: principal.RoleAgent, Lane: "main"})
	if err != nil {
		return nil, nil, stop, err
	}
	_, paste, err := g.Nodes.Invite(ctx,
		nodes.InviteSpec{By: "admin", Label: "bench", Trust: "bench", AutoApprove: true, Allow: []string{"*"}})
	if err != nil {
		return nil, nil, stop, err
	}
	paste.Addrs = []string{g.QUICAddr().String()}
	text, err := paste.Encode()
	if err != nil {
		return nil, nil, stop, err
	}
	answer := func(raw json.RawMessage) (any, error) {
		var o order
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, err
		}
		if o.Do == "packets" {
			return lastCall(ctx, g.Ledger)
		}
		return nil, profile(o)
	}
	return gatewayReady{HTTP: "http://" + g.HTTPAddr().
		String(), QUIC: g.QUICAddr().String(), Token: secret.Reveal(), Paste: text}, answer, stop, nil
}

// packet is one packet of a real call, as the floor of the commits writes it.
type packet struct {
	Kind      ledger.Kind              `json:"kind"`
	Call      capabilities.CallID      `json:"call"`
	Tool      capabilities.ToolID      `json:"tool"`
	Principal capabilities.PrincipalID `json:"principal"`
	Lane      capabilities.LaneID      `json:"lane"`
	Node      capabilities.NodeID      `json:"node"`
	Body      json.RawMessage          `json:"body"`
}

// lastCall returns the four packets of the newest call that ended well.
func lastCall(ctx context.Context, l *ledger.Ledger) ([]packet, error) {
	ends, err := l.Packets(ctx, ledger.Query{Kind: ledger.KindCallResult, Newest: true, Limit: 1})
	if err != nil || len(ends) == 0 {
		return nil, errors.Join(err, errors.New("the ledger has no ended call"))
	}
	all, err := l.Packets(ctx, ledger.Query{Call: ends[0].Call})
	if err != nil {
		return nil, err
	}
	var out []packet
	for _, p := range all {
		out = append(out, packet{p.Kind, p.Call, p.Tool, p.Principal, p.Lane, p.Node, json.RawMessage(p.Body)})
	}
	if len(out) != 4 {
		return nil, fmt.Errorf("a call has %d packets, not 4", len(out))
	}
	return out, nil
}

type nodeConfig struct {
	Dir   string `json:"dir"`
	Paste string `json:"paste"`
}

// nodeRole is a whole node agent with the fixture handler.
func nodeRole(raw json.RawMessage) (any, func(json.RawMessage) (any, error), func(), error) {
	var config nodeConfig
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, nil, nil, err
	}
	cat, err := site.Catalog()
	if err != nil {
		return nil, nil, nil, err
	}
	paste, err := pairing.ParsePaste(config.Paste)
	if err != nil {
		return nil, nil, nil, err
	}
	hs := []capabilities.Handler{site.NewHandler()}
	if _, err := link.Join(context.Background(), paste,
		link.JoinOptions{Dir: config.Dir, Profile: pairing.Profile{Host: "bench", Offers: agent.Offers(hs)}}); err != nil {
		return nil, nil, nil, err
	}
	connected := make(chan struct{})
	once := sync.OnceFunc(func() { close(connected) })
	a, err := agent.New(agent.Options{Dir: config.Dir, Handlers: hs, Catalog: cat, Version: "bench", Log: quiet(),
		OnState: func(s link.State) {
			if s.Connected {
				once()
			}
		}})
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop := func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Fprintln(os.Stderr, "bench: node:", err)
		}
	}
	select {
	case <-connected:
	case err := <-done:
		return nil, nil, nil, err
	}
	answer := func(raw json.RawMessage) (any, error) {
		var o order
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, err
		}
		return nil, profile(o)
	}
	return struct{}{}, answer, stop, nil
}

type crowdConfig struct {
	Dir   string `json:"dir"`
	Paste string `json:"paste"`
	Nodes int    `json:"nodes"`
}

// crowdRole is many idle nodes in one process: real links with the readiness that
// a node with a browser reports, and nothing behind them.
func crowdRole(raw json.RawMessage) (any, func(json.RawMessage) (any, error), func(), error) {
	var config crowdConfig
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, nil, nil, err
	}
	paste, err := pairing.ParsePaste(config.Paste)
	if err != nil {
		return nil, nil, nil, err
	}
	cat, err := catalog.Embedded()
	if err != nil {
		return nil, nil, nil, err
	}
	var ready []capabilities.Readiness
	var offers []capabilities.CapabilityID
	for _, name := range []string{"launch", "navigate", "snapshot", "click", "type", "screenshot", "evaluate", "tabs", "close"} {
		id := capabilities.CapabilityID("tyrum.browser." + name)
		offers = append(offers, id)
		ready = append(ready, capabilities.Readiness{Capability: id, Isolation: capabilities.ClassT2, Backend: "chromium 150.0.0.0"})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	stop := func() { cancel(); running.Wait() }

	var connected atomic.Int64
	all := make(chan struct{})
	failed := make(chan error, config.Nodes)
	slots := make(chan struct{}, 16) // joining is not what is measured
	for i := range config.Nodes {
		running.Go(func() {
			dir := filepath.Join(config.Dir, fmt.Sprint(i))
			slots <- struct{}{}
			_, err := link.Join(ctx, paste, link.JoinOptions{
				Dir: dir, Profile: pairing.Profile{Host: fmt.Sprintf("desk-%04d", i), Platform: "linux", Arch: "amd64", Agent: "bench", Offers: offers},
			})
			<-slots
			if err != nil {
				failed <- err
				return
			}
			once := sync.OnceFunc(func() {
				if connected.Add(1) == int64(config.Nodes) {
					close(all)
				}
			})
			l, err := link.New(link.Options{
				Dir: dir,
				Serve: func(_ context.Context, _ *wire.Ticket, s link.Sink) {
					s.Answer(wire.Answer{Status: capabilities.StatusOK, Output: []byte("{}")}, nil)
				},
				Journal: func(context.Context, *wire.JournalAsk) []wire.JournalState { return nil },
				Hello: func() wire.Hello {
					return wire.Hello{CatalogHash: cat.Hash(), Agent: "bench", Platform: "linux", Arch: "amd64", Host: fmt.Sprintf("desk-%04d", i)}
				},
				Readiness: func(context.Context) []capabilities.Readiness { return append([]capabilities.Readiness(nil), ready...) },
				OnState: func(s link.State) {
					if s.Connected {
						once()
					}
				},
			})
			if err == nil {
				err = l.Run(ctx)
			}
			if err != nil {
				failed <- err
			}
		})
	}
	select {
	case <-all:
	case err := <-failed:
		return nil, nil, stop, err
	}
	return struct{}{}, func(json.RawMessage) (any, error) { return connected.Load(), nil }, stop, nil
}
