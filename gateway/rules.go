package gateway

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/store"
)

// openRules loads the policy in force; the store must be open.
func (g *Gateway) openRules(ctx context.Context) (err error) {
	g.Rulebook, err = rules.Open(ctx, rules.Options{
		Dir: g.path("policy"), Tools: g.Registry.Now(), Store: g.Store, Record: g.recordActivation, Refused: g.recordRefusal, Staged: g.recordDraft, Files: g.opts.PolicyFiles, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.Registry.Accept(func(next *registry.View) error { return g.Rulebook.Adopt(next) })
	return nil
}

// recordActivation writes an activation down as the privileged call that it is.
func (g *Gateway) recordActivation(tx *store.Tx, a rules.Activated) error {
	summary := ledger.Draft{Kind: "gateway.policy.activated", Principal: a.By, Call: a.Call, Body: map[string]any{
		"policy_snapshot_id": a.Snapshot, "before": a.Before, "reason": a.Reason, "files": append([]string{}, a.Files...),
	}}
	drafts := []ledger.Draft{summary}
	if a.Envelope != nil {
		drafts = append(activationCall(a), summary, activationDraft(a, ledger.KindCallResult, map[string]any{"status": "ok", "effect": "confirmed"}))
	}
	if _, err := g.Ledger.AppendIn(tx, drafts...); err != nil || g.Consent == nil {
		return err // at a start there are no grants yet: loading them looks
	}
	return g.Consent.TurnIn(tx, a.Snapshot, a.By)
}

// recordRefusal writes down an activation that the policy in force forbids, like any call
// that it denies (S4-43).
func (g *Gateway) recordRefusal(tx *store.Tx, a rules.Activated) error {
	end := activationDraft(a, ledger.KindCallFailed, map[string]any{"status": "denied", "code": a.Decision.Code, "message": a.Decision.Reason})
	_, err := g.Ledger.AppendIn(tx, append(activationCall(a), end)...)
	return err
}

// activationCall is the request and the decision of an activation.
func activationCall(a rules.Activated) []ledger.Draft {
	e, d := a.Envelope, a.Decision
	decision := map[string]any{
		"effect": d.Effect, "grant": a.Grant, "policies": d.Determining, "policy_snapshot_id": e.Snapshot,
		"envelope_hash": e.HashHex(), "envelope": e.Envelope, "role": e.Role,
	}
	if d.Code != "" {
		decision["code"], decision["reason"] = d.Code, d.Reason
	}
	return []ledger.Draft{
		activationDraft(a, ledger.KindCallRequest, map[string]any{"args_digest": e.ArgsDigest, "evidence": map[string]any{"from": a.Before, "to": a.Snapshot}, "surface": "policy"}),
		activationDraft(a, ledger.KindCallDecision, decision),
	}
}

func activationDraft(a rules.Activated, kind ledger.Kind, body map[string]any) ledger.Draft {
	return ledger.Draft{Kind: kind, Call: a.Call, Tool: policy.ActivationTool, Principal: a.By, Lane: a.Envelope.Lane, Body: body}
}

// recordDraft writes down that somebody staged a set.
func (g *Gateway) recordDraft(tx *store.Tx, d rules.Draft) error {
	_, err := g.Ledger.AppendIn(tx, ledger.Draft{Kind: "gateway.policy.staged", Principal: d.By, Body: map[string]any{"policy_snapshot_id": d.Snapshot, "base": d.Base}})
	return err
}

// followRules tells who watches tools and nodes that another policy is in force, or that
// other tools are registered.
func (g *Gateway) followRules(ctx context.Context) error {
	for {
		rules, tools := g.Rulebook.Changed(), g.Registry.Changed()
		g.Nodes.Nudge() // after the signals were taken, so that no change is missed
		select {
		case <-ctx.Done():
			return nil
		case <-rules:
		case <-tools:
		}
	}
}
