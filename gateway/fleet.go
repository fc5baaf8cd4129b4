package gateway

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/job"
	"github.com/handrail-dev/handrail/gateway/lane"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/provider"
	"github.com/handrail-dev/handrail/gateway/push"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/signin"
	"github.com/handrail-dev/handrail/gateway/stop"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/task"
	"github.com/handrail-dev/handrail/gateway/turn"
)

// shared are the tables that gateways write which serve at once. Those of rooms that keep them in
// memory are heard of, and read again by everyone; the others are read where they are needed. No
// other table can be written meanwhile, so no room is old without knowing it.
func shared() map[string]bool {
	all := map[string]bool{nodes.PlaceTable: true, "ledger_head": true, secretTable: true, "lane_taint": true, "principal_taint": true}
	for _, tables := range [][]string{
		principal.Tables, lane.Tables, consent.Tables, consent.QuestionTables, stop.Tables, rules.Tables, nodes.Tables, driftTables,
		job.Tables, push.Tables, workerTables, task.Tables, turn.Tables, provider.Tables, provider.UntoldTables,
		signin.Tables, bus.Tables,
	} {
		for _, t := range tables {
			all[t] = true
		}
	}
	for _, t := range []string{
		"secret", "oauth_client", "site_generation",
		"packet_store", "ledger_segment", "ledger_node_head", "ledger_tree", "calls", "calls_mark", "outcome", "outcome_digest_key", "artifact",
		"governance_series", "governance_time", "governance_state", "policy_sets", "policy_drafts", "admin_calls", "invite",
		"worker_invite", "knowledge_facts", "manifest",
	} {
		all[t] = false
	}
	return all
}

// driftTables are those whose rows calls are judged by.
var driftTables = []string{"drift_event", "drift_quarantine", "drift_restricted", "drift_clean", "drift_state"}

// secretTable has what agents may name; values are read where they are used.
const secretTable = "secret_reference"

// share has the rooms read again what other gateways write, in the order in which one needs the
// other: a grant is one of a policy.
func (g *Gateway) share() {
	g.Store.Watch(g.Tokens.Again, principal.Tables...)
	g.Store.Watch(g.Bus.Again, bus.Tables...)
	g.Store.Watch(g.Providers.Again, provider.Tables...)
	g.Store.Watch(g.Providers.AgainUntold, provider.UntoldTables...)
	g.Store.Watch(g.Rulebook.Again, rules.Tables...)
	g.Store.Watch(g.Drift.Load, driftTables...)
	g.Store.Watch(func(ctx context.Context) error { return g.Switch.Again(ctx, g.turnedElsewhere) }, stop.Tables...)
	g.Store.Watch(g.Nodes.Again, nodes.Tables...)
	g.Store.Watch(g.Nodes.AgainPlaces, nodes.PlaceTable)
	g.Store.Watch(g.Lanes.Again, lane.Tables...)
	g.Store.Watch(g.Consent.Again, consent.Tables...)
	g.Store.Watch(g.Consent.AgainQuestions, consent.QuestionTables...)
	g.Store.Watch(g.Secrets.Load, secretTable)
	g.Store.Watch(g.Jobs.Again, job.Tables...)
	g.Store.Watch(g.Tasks.Again, task.Tables...)
	g.Store.Watch(g.Turns.Again, turn.Tables...)
	g.Store.Watch(g.SignIns.Again, signin.Tables...)
	g.Store.Watch(g.Push.Load, push.Tables...)
	g.Store.Watch(g.againWorkers, workerTables...)
	g.Store.OnGone(g.Works.EndIn)
	g.Store.OnGone(g.Nodes.GoneIn)
	g.Store.OnGone(g.Consent.GoneIn)
	g.Store.OnGone(g.Jobs.GoneIn)
	g.Store.OnGone(g.Providers.GoneIn)
	g.Store.OnGone(g.Bus.GoneIn)
	g.Nodes.OnAlarm(wordStop, g.toldStop)
	g.Nodes.OnWord(wordTaskEnded, g.toldTaskEnded)
	g.Nodes.OnWord(wordAttends, g.toldAttends)
	g.Nodes.OnWord(wordInside, g.toldInside)
	for word, f := range g.Consent.Words() {
		g.Nodes.OnWord(word, f)
	}
	if g.peers != nil {
		for word, f := range g.peers.words() {
			g.Nodes.OnWord(word, f)
		}
	}
}

// holds reports whether a host of providers is connected to this one of several gateways.
func (g *Gateway) holds(host capabilities.NodeID) bool {
	return g.opts.Fleet == "" || g.Nodes.Holds(host) || g.Bus.Holds(host)
}

// catchUp reads what other gateways wrote until now; nil: there are none.
func (g *Gateway) catchUp() func() error {
	if g.opts.Fleet == "" {
		return nil
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), heedWithin)
		defer cancel()
		return g.Store.CatchUp(ctx)
	}
}

// registered has grants read again: they rest on what tools say, and those are registered now that
// another gateway approved.
func (g *Gateway) registered() {
	g.Store.Reread(consent.Tables[0])
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	if err := g.Store.Refresh(ctx); err != nil {
		g.log.Warn("store.fleet", "err", err)
	}
}

// wordStop tells the other gateways of a stop.
const wordStop = "stop"

// toldStop puts a stop in effect that another gateway tells of.
func (g *Gateway) toldStop(_ context.Context, body []byte) (any, error) {
	var now stop.State
	if err := json.Unmarshal(body, &now); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "")
	}
	g.Switch.Told(now, g.turnedElsewhere)
	return struct{}{}, nil
}

// spreadStop tells the other gateways of a stop at once, before it is written down. They find it in
// the store, too.
func (g *Gateway) spreadStop() {
	ctx, cancel := context.WithTimeout(context.Background(), heedWithin)
	defer cancel()
	g.Nodes.TellMembers(ctx, wordStop, g.Switch.State())
}

// everywhere returns what waits for a person at any gateway of the site.
func (g *Gateway) everywhere() *consent.Everywhere {
	if g.opts.Fleet == "" {
		return g.Consent.Everywhere(nil)
	}
	return g.Consent.Everywhere(g.Nodes.AskMember)
}

// workerTables are read where they are needed, but for the connections to the bus of those that
// were put out.
var workerTables = []string{"worker"}

// meet opens the address at which the other gateways reach this one, and has them know it.
func (g *Gateway) meet(ctx context.Context) error {
	if g.opts.Fleet == "" {
		return nil
	}
	at, err := g.Nodes.ListenPeers(ctx, g.opts.Fleet)
	if err != nil {
		return err
	}
	return g.Store.Reach(ctx, at.String())
}

// turnedElsewhere does here what a turn of the stop switch does that another gateway made. It is
// called by the store's writer, and does not wait.
func (g *Gateway) turnedElsewhere(s stop.State) {
	g.log.Warn("gateway.stop", "stopped", s.Stopped, "by", s.By, "epoch", s.Epoch, "at", "another gateway")
	go g.Nodes.TellStop(s.Epoch, s.Stopped) // bounds itself
	if s.Stopped {
		go func() {
			g.Dispatcher.StopAll()
			ctx, cancel := context.WithTimeout(context.Background(), lease)
			defer cancel()
			if err := g.Consent.HaltElsewhere(ctx); err != nil {
				g.log.Warn("gateway.stop", "err", err)
			}
		}()
	}
}

// keepTasks carries out the calls that wait for a person.
func (g *Gateway) keepTasks(ctx context.Context) error {
	g.Store.OnGone(g.Tasks.GoneIn) // after the pipeline took up the calls themselves
	return g.Tasks.Run(ctx, g.Dispatcher)
}

// several makes options of a store of one gateway those of one of several.
func (g *Gateway) several(o *store.Options) error {
	if !g.opts.Standby && g.opts.Fleet == "" {
		return nil
	}
	if o.URL == "" {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "Several gateways of a site need its store in PostgreSQL.").
			WithHint("Move the site there first, or let this one serve alone.")
	}
	if o.Lease = lease; g.opts.Fleet != "" {
		o.Shared = shared()
	}
	return nil
}
