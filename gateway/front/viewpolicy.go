package front

import (
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/rules"
)

// ViewPolicy is the files that an engine was made of.
func ViewPolicy(e *policy.Engine) api.PolicySet {
	s := api.PolicySet{Snapshot: e.SnapshotID(), Sources: []api.PolicyFile{}}
	for _, f := range e.Sources() {
		s.Sources = append(s.Sources, api.PolicyFile{Name: f.Name, Text: string(f.Data)})
	}
	return s
}

// ViewVersion is an activation.
func ViewVersion(v *rules.Version) api.PolicyVersion { return api.PolicyVersion(*v) }

// ViewDraft is a draft.
func ViewDraft(d *rules.Draft) api.PolicyDraft { return api.PolicyDraft(*d) }

// ViewReplay is what a replay found.
func ViewReplay(r *rules.Replay) api.PolicyReplay {
	out := api.PolicyReplay{
		Snapshot: r.Snapshot, Calls: r.Calls, Same: r.Same, Skipped: r.Skipped, Looser: r.Looser, Stricter: r.Stricter, Unsure: r.Unsure,
		Already: r.Already, Through: r.Through, Changes: make([]api.PolicyChange, 0, len(r.Changes)),
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		out.Changes = append(out.Changes, api.PolicyChange{
			Call: c.Call, At: c.At, Tool: c.Tool, Principal: c.Principal, Node: c.Node, Was: c.Was.String(), Would: c.Would.String(),
			Policies: c.Policies, Reason: c.Reason, Unsure: c.Unsure, Already: c.Already,
		})
	}
	return out
}

// ViewSelection is what the selector chose.
func ViewSelection(s *registry.ToolSelection) api.ToolSelection {
	return api.ToolSelection{
		IntentSummary: s.IntentSummary, CandidateTools: s.CandidateTools, SelectedTool: s.SelectedTool, Args: s.Args, WhySelected: s.WhySelected,
		ExpectedSideEffects: string(s.ExpectedSideEffects), RollbackPlan: s.RollbackPlan, Confidence: s.Confidence,
	}
}

// ViewSignal is a difference between what was shown and what is granted.
func ViewSignal(s *drift.Signal) api.Signal {
	return api.Signal{Severity: string(s.Severity), Control: s.Control, Call: s.Call, Key: s.Key, Text: s.Text}
}

// ViewArtifact is a file that is kept.
func ViewArtifact(k *outcome.Kept) api.Artifact {
	return api.Artifact{
		ID: k.ID, Name: k.Name, MIME: k.MIME, Size: k.Size, Call: k.Call, Tool: k.Tool, Node: k.Node, Principal: k.Principal, Lane: k.Lane,
		CreatedAt: k.Created.UTC(), ExpiresAt: k.Expires.UTC(), Retention: k.Retention(),
	}
}
