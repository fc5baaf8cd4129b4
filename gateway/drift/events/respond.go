package events

import (
	"context"
	"database/sql"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Ended is a call that has ended, with what drifted.
type Ended struct {
	Call      capabilities.CallID
	Tool      capabilities.ToolID
	Principal capabilities.PrincipalID
	Lane      capabilities.LaneID
	Node      capabilities.NodeID // "": the gateway carried it out
	Runner    drift.Runner
	Manifest  string                 // hash of the tool's manifest
	Events    []packet.Drift         // the worst first; Response and Runner are set here
	Uncounted *packet.DriftUncounted // nil: Events are all
}

// EndIn records in tx what drifted in a call and what is done about it, after the call's end, whose
// packet last is. A call that ended well and showed nothing counts as clean where risk is raised.
func (b *Book) EndIn(tx *store.Tx, e *Ended, last *ledger.Packet) error {
	at := place{e.Tool, e.Node}
	if len(e.Events) == 0 && !b.counts(at) {
		return nil
	}
	if err := b.foldIn(tx, last); err != nil {
		return err
	}
	if len(e.Events) == 0 {
		return b.cleanIn(tx, at)
	}
	b.watch(at)
	drafts, err := b.answers(tx, e)
	if err != nil {
		return err
	}
	_, err = b.append(tx, drafts...)
	return err
}

// answers are the packets of events and of what is done about them: a critical one restricts its
// tool (S1-53), and the third violation within an hour quarantines its runner (S1-52).
func (b *Book) answers(tx *store.Tx, e *Ended) ([]ledger.Draft, error) {
	draft := func(kind ledger.Kind, body any) ledger.Draft {
		return ledger.Draft{Kind: kind, Call: e.Call, Tool: e.Tool, Principal: e.Principal, Lane: e.Lane, Node: e.Node, Body: body}
	}
	runner := e.Runner.Fingerprint()
	before, held, err := b.violations(tx, runner)
	if err != nil {
		return nil, err
	}
	drafts := make([]ledger.Draft, 0, len(e.Events)+3)
	var after []ledger.Draft
	for _, d := range e.Events {
		d.Runner = runner
		switch d.Severity {
		case drift.Critical:
			d.Response = drift.Restricted
			if len(after) == 0 {
				after = append(after, draft(ledger.KindRestricted, packet.DriftRestricted{ID: d.ID, Manifest: e.Manifest}))
			}
		case drift.Violation:
			if d.Response == "" {
				d.Response = drift.Recorded
			}
			if before++; before >= third && !held && runner != "" {
				held, d.Response = true, drift.Quarantined
				after = append(after, draft(ledger.KindQuarantined, packet.DriftQuarantined{
					Runner: runner, Class: e.Runner.Class, Walls: e.Runner.Walls, Program: e.Runner.Program, ID: d.ID, Violations: before,
				}))
			}
		default:
			d.Response = drift.Recorded
		}
		event := draft(ledger.KindDrift, d)
		switch len(d.Among) {
		case 0:
		case 1: // a call that had ended
			event.Call = d.Among[0]
		default:
			event.Call = ""
		}
		drafts = append(drafts, event)
	}
	if e.Uncounted != nil {
		drafts = append(drafts, draft(ledger.KindDriftUncounted, *e.Uncounted))
	}
	return append(drafts, after...), nil
}

// violations counts those of a runner within the hour, since its last quarantine was lifted; held:
// it is in quarantine.
func (b *Book) violations(tx *store.Tx, runner string) (n int, held bool, err error) {
	if runner == "" {
		return 0, false, nil
	}
	since := b.opts.Now().Add(-hour).UnixMicro()
	var lifted int64
	switch err := tx.QueryRow("SELECT lifted_us FROM drift_quarantine WHERE runner = $1", runner).Scan(&lifted); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return 0, false, err
	case lifted == 0:
		return 0, true, nil
	default:
		since = max(since, lifted)
	}
	err = tx.QueryRow("SELECT COUNT(*) FROM drift_event WHERE runner = $1 AND at_us > $2 AND severity = $3", runner, since,
		string(drift.Violation)).Scan(&n)
	return n, false, err
}

// counts reports whether clean calls may count at a place.
func (b *Book) counts(at place) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.watched[at]
}

func (b *Book) watch(at place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched[at] = true
}

// cleanIn ends the raise of risk at a place where enough calls showed nothing.
func (b *Book) cleanIn(tx *store.Tx, at place) error {
	var enough bool
	if err := tx.QueryRow("SELECT EXISTS (SELECT 1 FROM drift_clean WHERE tool = $1 AND node = $2 AND calls >= $3)", string(at.tool),
		string(at.node), clean).Scan(&enough); err != nil || !enough {
		return err
	}
	_, err := b.append(tx, ledger.Draft{Kind: ledger.KindRiskCleared, Tool: at.tool, Node: at.node, Body: packet.DriftCleared{Calls: clean}})
	return err
}

// Refuses says why a tool is not called, or not by that runner: CodeToolRestricted or
// CodeRunnerQuarantined; nil: it may be. runner is asked only while any is in quarantine.
func (b *Book) Refuses(tool capabilities.ToolID, runner func() drift.Runner) *capabilities.Error {
	b.mu.RLock()
	r, restricted := b.restricted[tool]
	some := len(b.quarantined) > 0
	b.mu.RUnlock()
	if restricted {
		return capabilities.Errorf(capabilities.CodeToolRestricted,
			"A call of %s did something privileged that it was never granted (%s), and nobody has reviewed the tool since.", tool, r.Event).
			WithAction(capabilities.Action{
				Key: capabilities.ActionReviewDrift, Tool: tool,
			}, "An admin reviews its manifest and lets it be called again.").
			WithDetails(map[string]any{"drift_id": r.Event, "since": r.Since})
	}
	if !some {
		return nil
	}
	fingerprint := runner().Fingerprint()
	b.mu.RLock()
	q, held := b.quarantined[fingerprint]
	b.mu.RUnlock()
	if !held {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeRunnerQuarantined,
		"The runner of %s on %s did %d times within an hour what it was not granted, and takes no calls.", tool, q.Host, third).
		WithAction(capabilities.Action{
			Key: capabilities.ActionLiftQuarantine, Name: fingerprint,
		}, "An admin looks at the drift events and lifts the quarantine.").
		WithDetails(map[string]any{"drift_id": q.Event, "runner": fingerprint, "since": q.Since})
}

// Raised is by how many levels the risk of a tool is raised on a node: 0 to MaxRaise (S1-05).
func (b *Book) Raised(tool capabilities.ToolID, node capabilities.NodeID) int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.raised[place{tool, node}]
}

// Lift ends a quarantine by a person's word, and violations count from none. CodeNotFound.
func (b *Book) Lift(ctx context.Context, by capabilities.PrincipalID, fingerprint, reason string) error {
	return b.change(ctx, reason, func(tx *store.Tx) (ledger.Draft, error) {
		var node, tool string
		err := tx.QueryRow("SELECT node, tool FROM drift_quarantine WHERE runner = $1 AND lifted_us = 0", fingerprint).Scan(&node, &tool)
		if errors.Is(err, sql.ErrNoRows) {
			err = capabilities.Errorf(capabilities.CodeNotFound, "no runner %.32q is in quarantine", fingerprint).
				WithAction(capabilities.Action{Key: capabilities.ActionListDrift}, "Name one that is.")
		}
		return ledger.Draft{
			Kind: ledger.KindLifted, Principal: by, Node: capabilities.NodeID(node), Tool: capabilities.ToolID(tool),
			Body: packet.DriftLifted{Runner: fingerprint, Reason: reason},
		}, err
	})
}

// Review lets a restricted tool be called again, by the word of a person who looked at its manifest
// of that hash (S1-54). CodeNotFound: it is not restricted; CodeConflict: its manifest is another.
func (b *Book) Review(ctx context.Context, by capabilities.PrincipalID, tool capabilities.ToolID, manifest, reason string) error {
	return b.change(ctx, reason, func(tx *store.Tx) (ledger.Draft, error) {
		var id string
		err := tx.QueryRow("SELECT drift_id FROM drift_restricted WHERE tool = $1", string(tool)).Scan(&id)
		now := b.opts.Manifest(tool)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			err = capabilities.Errorf(capabilities.CodeNotFound, "%.128q is not restricted by drift", tool).
				WithAction(capabilities.Action{Key: capabilities.ActionListDrift}, "Name a tool that is.")
		case err == nil && now == "":
			err = capabilities.Errorf(capabilities.CodeUnknownTool, "there is no tool %.128q now, so there is nothing to review", tool)
		case err == nil && now != manifest:
			err = capabilities.Errorf(capabilities.CodeConflict, "the manifest of %s is not the one that you looked at", tool).
				WithAction(capabilities.Action{Key: capabilities.ActionReviewDrift, Tool: tool}, "Look at it again.")
		}
		return ledger.Draft{
			Kind: ledger.KindReviewed, Principal: by, Tool: tool, Body: packet.DriftReviewed{Manifest: manifest, Reason: reason},
		}, err
	})
}
