package governance

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/outcome"
)

// fact is what a number counts. The names stand in the store.
type fact string

// The facts, with what A, B and C of their cells say.
const (
	executions  fact = "executions"  // calls that were sent to be carried out; least class, class given, node
	outcomes    fact = "outcomes"    // ends; code, or "ok"
	declared    fact = "declared"    // decisions on a tool that declares a key; key
	effective   fact = "effective"   // decisions that left a key granted; key
	withheld    fact = "withheld"    // decisions that took a key away; key, rule
	used        fact = "used"        // calls sent with a key granted; key, principal, node
	observed    fact = "observed"    // ends whose node saw something under a key; key
	decisions   fact = "decisions"   // allow, allow by a person, ask or deny; code, rule
	refusals    fact = "refusals"    // decisions that denied or asked; wanted category, effect, rule
	profiles    fact = "profiles"    // decisions; profile, policy snapshot
	privileged  fact = "privileged"  // calls sent with any privileged key; principal
	mismatches  fact = "mismatches"  // calls whose class was not to be had, refused or not; class needed
	drifts      fact = "drifts"      // events; severity, signal, key
	undeclared  fact = "undeclared"  // events about a key that the tool does not declare
	resolved    fact = "resolved"    // events that a person resolved; severity
	resolvedMS  fact = "resolved_ms" // how long that took, in all; severity
	activations fact = "activations" // policies that came into force; snapshot
	masked      fact = "masked"      // ends of calls that return no personal data; "calls", or "values" that were masked
	retained    fact = "retained"    // artifacts; retention class
)

// facts are all of them.
var facts = [...]fact{
	executions, outcomes, declared, effective, withheld, used, observed, decisions, refusals, profiles, privileged, mismatches, drifts,
	undeclared, resolved, resolvedMS, activations, masked, retained,
}

// allowedByPerson is the effect of a decision that a person's grant allowed.
const allowedByPerson = "allow by a person"

// noRule stands where policy has no rule that permits a call.
const noRule = "no rule permits it"

// cell addresses one number, but for its time.
type cell struct {
	Fact fact
	Tool capabilities.ToolID
	A    string
	B    string
	C    string
}

// compare orders cells.
func compare(a, b cell) int {
	return cmp.Or(cmp.Compare(a.Fact, b.Fact), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B),
		cmp.Compare(a.C, b.C))
}

// folded are the kinds of packets that say something to fold.
var folded = []ledger.Kind{
	ledger.KindCallDecision, ledger.KindCallDispatch, ledger.KindCallResult, ledger.KindCallFailed, ledger.KindCallReconciled,
	ledger.KindDrift, ledger.KindDriftUncounted, ledger.KindDriftResolved, ledger.KindDriftSurfaced, kindActivated,
}

const kindActivated ledger.Kind = "gateway.policy.activated"

// fold adds what one packet says. A body that cannot be read says nothing.
func fold(p *ledger.Packet, w words, add func(c cell, n int64)) {
	switch p.Kind {
	case ledger.KindCallDecision:
		foldDecision(p, w, add)
	case ledger.KindCallDispatch:
		foldDispatch(p, w, add)
	case ledger.KindCallResult, ledger.KindCallFailed, ledger.KindCallReconciled:
		foldEnd(p, w, add)
	case ledger.KindDrift:
		var d packet.Drift
		if json.Unmarshal(p.Body, &d) == nil {
			add(cell{drifts, p.Tool, string(d.Severity), d.Signal.String(), d.Key}, 1)
			if !d.Declared {
				add(cell{Fact: undeclared, Tool: p.Tool}, 1)
			}
		}
	case ledger.KindDriftUncounted:
		var d packet.DriftUncounted
		if json.Unmarshal(p.Body, &d) == nil {
			add(cell{drifts, p.Tool, string(d.Severity), "uncounted", ""}, int64(d.Events))
		}
	case ledger.KindDriftSurfaced:
		var s packet.Surfaced
		if json.Unmarshal(p.Body, &s) == nil {
			for _, one := range s.Signals {
				what := one.Key
				if what == "" {
					what = one.Control
				}
				add(cell{drifts, p.Tool, string(one.Severity), "surface", what}, 1)
			}
		}
	case ledger.KindDriftResolved:
		var r packet.DriftResolved
		if json.Unmarshal(p.Body, &r) == nil {
			add(cell{Fact: resolved, Tool: p.Tool, A: string(r.Severity)}, 1)
			add(cell{Fact: resolvedMS, Tool: p.Tool, A: string(r.Severity)}, max(0, p.TimeUS-r.OpenedUS)/1000)
		}
	case kindActivated:
		var a packet.Activated
		if json.Unmarshal(p.Body, &a) == nil {
			add(cell{Fact: activations, A: a.Snapshot}, 1)
		}
	}
}

// reasonPolicy is the reason of a decision by which policy left the call no node, whatever its code
// is.
const reasonPolicy = string(capabilities.CodeDeniedByPolicy)

func foldDecision(p *ledger.Packet, w words, add func(cell, int64)) {
	d, e, ok := w.decision(p.Body)
	if !ok {
		d = packet.Decision{}
		if json.Unmarshal(p.Body, &d) != nil {
			return
		}
		e = d.Summary()
	}
	tool := p.Tool
	if d.Code == capabilities.CodeUnknownTool { // its name is the caller's own word
		tool = ""
	}
	effect := d.Effect.String()
	if d.Effect == policy.Allow && d.Grant != "" {
		effect = allowedByPerson
	}
	rule := ""
	if len(d.Policies) > 0 {
		rule = d.Policies[0]
	} else if d.Effect == policy.Deny && (d.Reason == reasonPolicy || e != nil && d.Code == capabilities.CodeDeniedByPolicy) {
		rule = noRule
	}
	add(cell{decisions, tool, effect, string(d.Code), rule}, 1)
	class := capabilities.IsolationClass("")
	if e != nil {
		class = e.Isolation
		add(cell{profiles, tool, e.Profile, d.Snapshot, ""}, 1)
		keys := e.Capabilities.Keys()
		for i, k := range keys {
			add(cell{Fact: declared, Tool: tool, A: k}, 1)
			if of := category(k); effect != policy.Allow.String() && (i == 0 || of != category(keys[i-1])) { // they are sorted
				add(cell{refusals, tool, of, effect, rule}, 1)
			}
		}
		for _, k := range keysOf(e.Grants) {
			add(cell{Fact: effective, Tool: tool, A: k}, 1)
		}
	}
	for _, k := range d.Withheld {
		add(cell{withheld, tool, k, rule, ""}, 1)
	}
	if d.Degraded != "" || d.Code == capabilities.CodeIsolationUnavailable {
		add(cell{Fact: mismatches, Tool: tool, A: string(class)}, 1)
	}
}

func foldDispatch(p *ledger.Packet, w words, add func(cell, int64)) {
	d, ok := w.dispatch(p.Body)
	if !ok {
		d = packet.Dispatch{}
		if json.Unmarshal(p.Body, &d) != nil {
			return
		}
	}
	add(cell{executions, p.Tool, string(d.Isolation), string(d.Given), string(p.Node)}, 1)
	keys := keysOf(d.Grants)
	for _, k := range keys {
		add(cell{used, p.Tool, k, string(p.Principal), string(p.Node)}, 1)
	}
	if slices.ContainsFunc(keys, isPrivileged) {
		add(cell{Fact: privileged, Tool: p.Tool, A: string(p.Principal)}, 1)
	}
}

func foldEnd(p *ledger.Packet, w words, add func(cell, int64)) {
	e, ok := w.end(p.Body)
	if !ok {
		e = packet.End{}
		if json.Unmarshal(p.Body, &e) != nil {
			return
		}
	}
	countEnd(p.Tool, &e, add)
}

func countEnd(tool capabilities.ToolID, e *packet.End, add func(cell, int64)) {
	code := string(e.Code)
	if e.Code == capabilities.CodeUnknownTool {
		tool = ""
	}
	if code == "" {
		code = "ok"
	}
	add(cell{Fact: outcomes, Tool: tool, A: code}, 1)
	if e.Masked != nil {
		add(cell{Fact: masked, Tool: tool, A: "calls"}, 1)
		if *e.Masked > 0 {
			add(cell{Fact: masked, Tool: tool, A: "values"}, *e.Masked)
		}
	}
	for _, a := range e.Artifacts {
		if a.Code == "" {
			add(cell{Fact: retained, Tool: tool, A: cmp.Or(a.Retention, outcome.RetentionStandard)}, 1)
		}
	}
	var seen []string
	for _, o := range e.Observed {
		// Another call's tool did what names that call; of several that ran at once each may have.
		if (o.Of == "" || strings.Contains(o.Of, " ")) && !slices.Contains(seen, o.Key) {
			seen = append(seen, o.Key)
			add(cell{Fact: observed, Tool: tool, A: o.Key}, 1)
		}
	}
}

// keysOf returns the keys of a list of grants without the values that narrow them, each once. A
// dispatch names a person's grants beside them, which are no keys.
func keysOf(grants []string) []string {
	keys := make([]string, 0, len(grants))
	for _, g := range grants {
		key, _, _ := strings.Cut(g, ":")
		if !strings.HasPrefix(g, policy.GrantPrefix) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func isPrivileged(key string) bool { return category(key) == "privileged" }

// category returns the category of a full key.
func category(key string) string {
	c, _, _ := strings.Cut(key, ".")
	return c
}
