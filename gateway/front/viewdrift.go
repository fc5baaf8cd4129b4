package front

import (
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift/events"
)

// ViewDrift is a drift event.
func ViewDrift(e *events.Event) api.DriftEvent {
	v := api.DriftEvent{
		ID: e.ID, Seq: e.Seq, At: e.At, Call: e.Call, Tool: e.Tool, Principal: e.Principal, Lane: e.Lane, Node: e.Node, Signal: e.Signal.String(),
		Severity: string(e.Severity), Key: e.Key, Declared: e.Declared, Evidence: e.Evidence, Count: e.Count, Runner: e.Runner,
		Response: string(e.Response), Envelope: e.EnvelopeHash, Profile: e.Profile, Snapshot: e.Snapshot, Raises: e.Raises,
		Open: e.Resolved.IsZero(), ResolvedBy: e.By, Reason: e.Reason,
	}
	if !v.Open {
		v.ResolvedAt = &e.Resolved
	}
	return v
}

// ViewQuarantine is a runner that takes no calls.
func ViewQuarantine(q *events.Quarantine) api.QuarantinedRunner {
	return api.QuarantinedRunner{
		Runner: q.Fingerprint, Node: q.Host, Class: q.Class, Walls: q.Walls, Program: q.Program, Tool: q.Tool, Event: q.Event, Since: q.Since,
	}
}
