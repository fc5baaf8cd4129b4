package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/gate"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// Covers asks the gateway what covers the calls of a tool of this worker.
func (g *workerGateway) Covers(ctx context.Context, tool capabilities.ToolID) (worker.Cover, error) {
	return g.covers(ctx, tool, nil)
}

// covers is Covers of one call; args nil: of any call.
func (g *workerGateway) covers(ctx context.Context, tool capabilities.ToolID, args json.RawMessage) (worker.Cover, error) {
	p, err := g.remote.Permission(ctx, tool, capabilities.LaneID(g.lane), args)
	if err != nil {
		return worker.Cover{}, g.remote.Told(err)
	}
	g.lastLane, g.lastPrincipal = p.Lane, p.Principal
	g.waits = args != nil && p.State == api.PermissionAsk
	return coverOf(&p), nil
}

// coverOf is what the gateway said of a call's permission.
func coverOf(p *api.Permission) worker.Cover {
	return worker.Cover{
		By: p.By, Asks: p.State == api.PermissionAsk, Reached: p.Asks, Lasting: p.Longest != "" && p.Longest != string(consent.KindCall),
		Node: string(p.Node), NodeName: p.Label,
	}
}

// workerPermits asks the person at this terminal, who is the admin of the data directory, and gives
// what they permit as leases in their own name.
type workerPermits struct {
	cmd    *cobra.Command
	g      *workerGateway
	answer func(ctx context.Context, question string) (string, error)
	always []string // grants for this session
}

func (p *workerPermits) Ask(ctx context.Context, q worker.Question) (worker.Leases, error) {
	answer, err := p.answer(ctx, permitQuestion(q))
	if err != nil {
		return worker.Leases{}, err
	}
	lasts, session := q.For, false
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
	case "s", "session":
		lasts, session = consent.MaxLease, true
	default:
		return worker.Leases{Refused: true}, nil
	}
	byNode := map[string][]string{}
	for _, w := range q.Wanted {
		byNode[w.Node] = append(byNode[w.Node], string(w.Tool))
	}
	var given []string
	for node, tools := range byNode {
		g, err := p.g.asker.Give(ctx, client.Lease{
			Principal: p.g.lastPrincipal, Lane: p.g.lastLane, Node: capabilities.NodeID(node), Tools: tools, For: lasts,
			Reason: "worker: " + string(q.Intent),
		})
		if err != nil {
			fmt.Fprintln(p.cmd.ErrOrStderr(), "It cannot be permitted from here: "+capabilities.Printable(err.Error()))
			return worker.Leases{Grants: given, Refused: true}, nil
		}
		given = append(given, g.ID)
	}
	if session {
		p.always = append(p.always, given...)
		return worker.Leases{}, nil
	}
	return worker.Leases{Grants: given}, nil
}

func (p *workerPermits) Revoke(ctx context.Context, grant string) error {
	return p.g.asker.RevokeGrant(ctx, grant)
}

// close takes back what was permitted for this session.
func (p *workerPermits) close() {
	ctx := context.WithoutCancel(p.cmd.Context())
	for _, grant := range p.always {
		if err := p.Revoke(ctx, grant); err != nil {
			fmt.Fprintf(p.cmd.ErrOrStderr(), "The permission %s ends within an hour: it could not be taken back: %s\n", grant,
				capabilities.Printable(err.Error()))
		}
	}
}

// permitQuestion lists what is asked for: capability, why (tools and intent), how long, how far.
func permitQuestion(q worker.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "For %s the worker needs your permission:\n", q.Intent)
	var order []gate.Capability
	tools, nodes := map[gate.Capability][]string{}, map[gate.Capability][]string{}
	for _, w := range q.Wanted {
		if !slices.Contains(order, w.Capability) {
			order = append(order, w.Capability)
		}
		tools[w.Capability] = append(tools[w.Capability], string(w.Tool))
		if !slices.Contains(nodes[w.Capability], w.Name) {
			nodes[w.Capability] = append(nodes[w.Capability], w.Name)
		}
	}
	for _, c := range order {
		fmt.Fprintf(&b, "  %s on %s, this conversation's lane only: %s\n", c, terminal.Plain(strings.Join(nodes[c], ", ")),
			strings.Join(tools[c], ", "))
	}
	fmt.Fprintf(&b, "Permit it for %s and this turn [y], for this session [s], or not [N]? ", capabilities.Spoken(q.For))
	return b.String()
}
