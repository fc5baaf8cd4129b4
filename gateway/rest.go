package gateway

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/front/console"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/passkey"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/pairing"
)

// mountREST puts the API, the events and the metrics beside MCP, and the pages over
// it.
func (g *Gateway) mountREST() error {
	keys, err := passkey.New(passkey.Options{Users: g.Tokens})
	if err != nil {
		return err
	}
	api, err := rest.New(rest.Options{
		Dispatcher: g.Dispatcher, Tools: g.Registry, Lanes: g.Lanes, Tokens: g.Tokens, Roster: g.Nodes,
		Ledger: g.Ledger, Providers: g.Providers, SignIns: g.SignIns, Clients: g.Clients, Satellites: satellites{g}, Hosts: g.hosts.Snapshot,
		Selector: g.Selector,
		Consent:  g.asked, Tasks: g.Tasks, Artifacts: g.files, Running: g.Dispatcher, Kept: g.Dispatcher, Drift: drifts{g.Drift, g},
		Memory: g.Knowledge, Turns: g.Turns, Jobs: g.Jobs, SubAgents: subAgents{g.SubAgents, g}, Workers: workers{g.Workers, g},
		Governance: g.Governance, NodeLogs: g.opts.NodeLogs, Secrets: secrets{g.Secrets, g},
		LocalClients: g.opts.LocalClients,
		Passkeys:     keys, Live: g.Live, Push: g.Push, Elsewhere: g.elsewhere, Sees: g.sees, Brake: brake{g}, Drain: g.drains(),
		Policy: g.Rulebook.Engine,
		Rules:  rulebook{g}, Works: g.Works, Site: g.describe, Metrics: g.metrics, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.api = api
	api.Mount(g.Front)
	looks := console.Options{API: api, Sessions: g.Tokens, Passkeys: keys, Site: g.site.ID(), Version: g.opts.Version, Log: g.log}
	if g.OIDC != nil {
		looks.Elsewhere = g.OIDC
	}
	pages, err := console.New(looks)
	if err != nil {
		return err
	}
	pages.Mount(g.Front)
	for _, e := range g.Clients.Endpoints() {
		g.Front.Handle(e.Pattern, front.Shared, e.Handler)
	}
	return nil
}

// sees reports whether somebody may watch a node's screen now: policy permits it to them
// without asking, a person did who was asked, or they are the person to ask: the owner of
// the node.
func (g *Gateway) sees(who principal.Identity, node capabilities.NodeID) bool {
	const screen = capabilities.ToolID("tool.live.screen")
	if !who.May(principal.ActWatch) {
		return false
	}
	switch g.Dispatcher.Permits(dispatch.Caller{Principal: who.Principal, Role: string(who.Role), Lane: who.Lane}, screen, node) {
	case policy.Allow:
		return true
	case policy.Ask:
		return g.Nodes.Owner(node) == who.Principal || slices.ContainsFunc(g.Consent.Grants(), func(grant consent.Grant) bool {
			return grant.Principal == who.Principal && grant.Node == node && (grant.Lane == "" || grant.Lane == who.Lane) &&
				slices.ContainsFunc(grant.Tools, func(t string) bool { return consent.Names(t, screen) })
		})
	}
	return false
}

func (g *Gateway) describe() rest.Site {
	site := rest.Site{
		SiteID: g.site.ID(), GatewayID: string(g.Nodes.GatewayID()), Version: g.opts.Version, StartedAt: g.began, ReadOnly: g.Store.Full(),
		Draining: g.leaving.begun(),
	}
	if a := g.Front.Addr(); a != nil {
		site.HTTPAddr, site.BaseURL, site.PublicURL = a.String(), g.opts.URL, g.opts.URL
		if site.BaseURL == "" {
			site.BaseURL = g.scheme() + "://" + a.String()
		}
	}
	if g.cert != nil {
		site.Fingerprint = g.cert.Fingerprint()
		if g.opts.TLSGenerated {
			site.Door = &pairing.Door{Addr: doorAddr(g.opts.URL, g.Front.Addr()), Sum: g.cert.Sum()}
		}
	}
	if g.quic != nil {
		site.QUICAddr = g.quic.String()
	}
	return site
}

// doorAddr is what a paste says of HTTPS: the address that other devices were promised,
// or the port alone where every address of this host serves.
func doorAddr(promised string, listener net.Addr) string {
	if u, err := url.Parse(promised); err == nil && u.Host != "" {
		if u.Port() == "" {
			return net.JoinHostPort(u.Hostname(), "443")
		}
		return u.Host
	}
	if tcp, ok := listener.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return ":" + strconv.Itoa(tcp.Port)
	}
	if listener == nil {
		return ""
	}
	return listener.String()
}

// rulebook adds the ledger to the policy sets, for replays.
type rulebook struct{ g *Gateway }

func (r rulebook) Load(ctx context.Context, name string) (*policy.Engine, error) {
	return r.g.Rulebook.Load(ctx, name)
}

func (r rulebook) Activate(ctx context.Context, q rules.Request) (rules.Version, error) {
	return r.g.Rulebook.Activate(ctx, q)
}

func (r rulebook) History(ctx context.Context, limit int) ([]rules.Version, error) {
	return r.g.Rulebook.History(ctx, limit)
}

func (r rulebook) Stage(ctx context.Context, e rules.Edit) (*policy.Engine, error) {
	return r.g.Rulebook.Stage(ctx, e)
}

func (r rulebook) Drafts(ctx context.Context) ([]rules.Draft, error) {
	return r.g.Rulebook.Drafts(ctx)
}

func (r rulebook) ReplayCall(ctx context.Context, call capabilities.CallID) (rules.CallReplay, error) {
	return rules.ReplayCall(ctx, r.g.Rulebook, r.g.Registry, r.g.Ledger, call)
}

func (r rulebook) Replay(ctx context.Context, engine, now *policy.Engine, after uint64) (rules.Replay, error) {
	return rules.Run(ctx, engine, now, r.g.Registry, r.g.Ledger, after)
}
