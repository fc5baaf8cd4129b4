package dispatch

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// maxEvents bounds the drift events of one call; one packet says how many more there were.
const maxEvents = 16

// maxEvidence bounds what an event says of several hosts, in bytes.
const maxEvidence = 512

// drifted compares what the node saw with what the call was granted, and keeps an event for each
// difference, to be recorded with the call's end (S1-49, S1-65). A critical one makes the result
// void (S1-51): the error to answer with, or nil. Of a call of an earlier process the envelope is
// gone, and nothing is compared; its node compared as it ran.
func (c *openCall) drifted(a *wire.Answer) *capabilities.Error {
	if c.sealed == nil || c.drift.Events != nil {
		return nil
	}
	s := drift.Seen{Grants: c.sealed.Grants, Needed: c.sealed.Isolation}
	if c.node != "" { // what the gateway composes runs in its steps, each in a class of its own
		s.Given = a.Isolation
	}
	s.Session = c.desc != nil && c.desc.InSession()
	if g := c.decision.Given; g != "" && !g.Meets(s.Needed, s.Session) { // policy let it run so, on record
		s.Needed, s.Session = g, g == capabilities.ClassSession
	}
	s.Declared = c.sealed.Capabilities.Keys()
	said := -1 // of s.Refused: the hosts to which a person said no
	for _, o := range a.Observed {
		use := drift.Use{Key: o.Key, Detail: o.Detail, Count: o.Count, Among: among(o.Among), Granted: o.Granted}
		switch {
		case !o.Refused:
			s.Uses = append(s.Uses, use)
		case !c.wanted.refused(o.Detail):
			s.Refused = append(s.Refused, use)
		case said < 0: // one attempt, which a person has seen, whatever the number of hosts
			said = len(s.Refused)
			s.Refused = append(s.Refused, use)
		default:
			one := &s.Refused[said]
			one.Detail, one.Count = capabilities.Clip(one.Detail+", "+use.Detail, maxEvidence), one.Count+use.Count
		}
	}
	found := drift.Observed(s)
	if len(found) == 0 {
		return nil
	}
	for i, one := range found {
		if i == maxEvents {
			c.drift.Uncounted = &packet.DriftUncounted{Events: uint32(len(found) - i), Severity: one.Severity, Call: c.id}
			break
		}
		response := drift.Recorded
		if one.Refused {
			response = drift.Refused
		}
		c.drift.Events = append(c.drift.Events, packet.Drift{
			ID: events.NewID(), EnvelopeHash: c.sealed.HashHex(), Profile: c.sealed.Profile, Snapshot: c.sealed.Snapshot, Key: plainKey(one.Key),
			Declared: one.Declared, Signal: one.Signal, Severity: one.Severity, Evidence: evidence(&one, s.Grants), Count: one.Count,
			Response: response,
			Among:    one.Use.Calls(),
		})
	}
	if a.Lost > 0 { // nothing is dropped without its number
		if c.drift.Uncounted == nil {
			c.drift.Uncounted = &packet.DriftUncounted{Severity: drift.Violation, Call: c.id}
		}
		c.drift.Uncounted.Events += a.Lost
	}
	if found[0].Severity != drift.Critical || a.Status != capabilities.StatusOK {
		return nil
	}
	return &capabilities.Error{Code: capabilities.CodeDriftCritical}
}

// evidence is what was seen, in words: of a refused host or file also whether its key was granted
// for others.
func evidence(d *drift.Difference, grants []string) string {
	u := &d.Use
	text := strings.ToValidUTF8(u.Detail, "\uFFFD")
	if d.Refused && slices.ContainsFunc(grants, func(g string) bool { return g == d.Key || strings.HasPrefix(g, d.Key+":") }) {
		switch d.Signal {
		case drift.Network:
			text += " (granted for other hosts only)"
		case drift.Write:
			text += " (granted for other folders only)"
		}
	}
	switch {
	case u.Among == "":
	case !strings.Contains(u.Among, " "):
		text += " (after the call had ended)"
	default:
		text += " (one of the calls " + u.Among + ", which their provider carried out at once)"
	}
	return text
}

// maxAmong bounds the calls of an event of which nobody can tell whose it is.
const maxAmong = 8

// among is what a node says of the calls of which one did something.
func among(calls []capabilities.CallID) string {
	var text []string
	for _, one := range calls[:min(len(calls), maxAmong)] {
		text = append(text, plainKey(string(one)))
	}
	return strings.Join(text, " ")
}

// quarantined refuses a call for what drifted before: its tool is restricted, or what would carry
// it out is in quarantine (S1-52, S1-53). A call that is only a retry runs nothing.
func (d *Dispatcher) quarantined(n *routed) *capabilities.Error {
	if n.unroutable != nil {
		return nil
	}
	return d.opts.Drift.Refuses(n.desc.Tool, func() drift.Runner { return n.runner(d.opts.Program) })
}

// runner is what carries the call out (S1-52); the zero value for what the gateway does itself.
func (n *routed) runner(program func(provider string) string) drift.Runner {
	if n.node == nil {
		return drift.Runner{}
	}
	return runnerOf(n.desc, n.node.ID, &n.ready, program)
}

// runnerOf is what carries a tool out on a node that says so of it.
func runnerOf(desc *catalog.Descriptor, node capabilities.NodeID, ready *capabilities.Readiness,
	program func(provider string) string) drift.Runner {
	r := drift.Runner{
		Host: node, Class: ready.Isolation, Walls: ready.Degraded, Deeper: ready.Deeper, Program: desc.Tool.Family() + " " + ready.Backend,
		File: ready.Program,
	}
	if desc.Provider != "" {
		r.Program = program(desc.Provider)
	}
	return r
}

// runners are the programs that carried c out, as its node reported them when their walls stood.
func (c *openCall) runners(list []capabilities.Ran) []packet.Ran {
	var all []packet.Ran
	for _, one := range list {
		r := drift.Runner{Host: c.node}
		if c.runner != nil {
			r = c.runner()
		}
		r.Class, r.Deeper, r.File = one.Class, plainKey(one.Deeper), plainKey(one.Program)
		walls := make([]string, len(one.Walls))
		for i, w := range one.Walls {
			walls[i] = plainKey(w)
		}
		all = append(all, packet.Ran{Runner: r.Fingerprint(), Class: one.Class, Walls: walls, Program: r.File})
	}
	return all
}

// driftIn records with the end of c what drifted, and has it answered.
func (d *Dispatcher) driftIn(tx *store.Tx, c *openCall, last *ledger.Packet) error {
	e := c.drift
	if len(e.Events) > 0 && c.runner != nil {
		e.Runner = c.runner()
	}
	e.Call, e.Tool, e.Principal, e.Lane, e.Node = c.id, c.tool, c.principal, c.lane, c.node
	if c.sealed != nil {
		e.Manifest = c.sealed.ManifestHash
	}
	return d.opts.Drift.EndIn(tx, &e, last)
}

// unanswered records what drifted, and does nothing about it.
type unanswered struct{ ledger *ledger.Ledger }

// Refuses implements Drift.
func (unanswered) Refuses(capabilities.ToolID, func() drift.Runner) *capabilities.Error { return nil }

// Raised implements Drift.
func (unanswered) Raised(capabilities.ToolID, capabilities.NodeID) int { return 0 }

// EndIn implements Drift.
func (u unanswered) EndIn(tx *store.Tx, e *events.Ended, _ *ledger.Packet) error {
	for _, one := range e.Events {
		one.Runner, one.Response = e.Runner.Fingerprint(), drift.Recorded
		if _, err := u.ledger.AppendIn(tx, ledger.Draft{
			Kind: ledger.KindDrift, Call: e.Call, Tool: e.Tool, Principal: e.Principal, Lane: e.Lane, Node: e.Node, Body: one,
		}); err != nil {
			return err
		}
	}
	return nil
}

// plainKey bounds what a node calls a key.
func plainKey(key string) string {
	return strings.ToValidUTF8(key[:min(len(key), 128)], "\uFFFD")
}
