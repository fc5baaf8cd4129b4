package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// PolicySet is the files of one policy.
type PolicySet struct {
	Snapshot string       `json:"snapshot_id"`
	Sources  []PolicyFile `json:"sources"`
}

// PolicyTools is the descriptors of the tools that rules can name.
type PolicyTools struct {
	Tools []json.RawMessage `json:"tools"`
}

// PolicyFile is one policy file.
type PolicyFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// PolicyVersion is one activation.
type PolicyVersion struct {
	N        int64                    `json:"n"`
	Snapshot string                   `json:"snapshot_id"`
	Before   string                   `json:"before,omitempty"` // what it replaced
	By       capabilities.PrincipalID `json:"by"`
	Reason   string                   `json:"reason,omitempty"`
	At       time.Time                `json:"at"`
}

// PolicyDraft is a set that somebody wrote and that is not in force, without its files.
type PolicyDraft struct {
	N        int64                    `json:"n"`
	Snapshot string                   `json:"snapshot_id"`
	Base     string                   `json:"base"` // what it was made from
	By       capabilities.PrincipalID `json:"by"`
	At       time.Time                `json:"at"`
}

// PolicyReplay is what a policy would have decided on the recorded calls.
type PolicyReplay struct {
	Snapshot string `json:"snapshot_id"`
	Calls    int    `json:"calls"`   // that were judged again
	Same     int    `json:"same"`    // decided as they were
	Skipped  int    `json:"skipped"` // refused before policy, or by something else than policy
	Looser   int    `json:"looser"`
	Stricter int    `json:"stricter"`
	// Already counts those of Looser and Stricter that the policy in force decides so, too.
	Already int `json:"already,omitempty"`
	// Unsure counts those of Calls whose recorded evidence does not say enough.
	Unsure  int            `json:"unsure"`
	Changes []PolicyChange `json:"changes"` // the newest ones, at most 200
	Through uint64         `json:"through"` // the last packet that was read
}

// PolicyChange is one call that would be decided otherwise. Was and Would are allow, ask or deny.
type PolicyChange struct {
	Call      capabilities.CallID      `json:"call"`
	At        time.Time                `json:"at"`
	Tool      capabilities.ToolID      `json:"tool"`
	Principal capabilities.PrincipalID `json:"principal"`
	Node      capabilities.NodeID      `json:"node,omitempty"`
	Was       string                   `json:"was"`
	Would     string                   `json:"would"`
	Policies  []string                 `json:"policies"`
	Reason    string                   `json:"reason"`
	Unsure    bool                     `json:"unsure,omitempty"`
	Already   bool                     `json:"already,omitempty"` // the policy in force decides so, too
}

// Instead says what would have been decided.
func (c *PolicyChange) Instead() string {
	switch {
	case c.Unsure:
		return c.Would + " (unsure)"
	case c.Already:
		return c.Would + ", as now"
	}
	return c.Would
}

// Summary counts what a replay found, in one sentence.
func (r *PolicyReplay) Summary() string {
	calls := "calls"
	if r.Calls == 1 {
		calls = "call"
	}
	said := fmt.Sprintf("%d recorded %s judged again: %d as they were, %d stricter, %d looser, %d unsure; %d not decided by policy.",
		r.Calls, calls, r.Same, r.Stricter, r.Looser, r.Unsure, r.Skipped)
	if r.Already > 0 {
		said += fmt.Sprintf(" The policy in force decides %d of them so already.", r.Already)
	}
	return said
}

// ExplainPolicy asks what policy would decide.
type ExplainPolicy struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"`
	Tool      capabilities.ToolID      `json:"tool"`
	Node      capabilities.NodeID      `json:"node,omitempty"`
	Lane      capabilities.LaneID      `json:"lane,omitempty"`
	Args      json.RawMessage          `json:"args,omitempty"`
}

// PolicyVersionList is the activations, the newest first.
type PolicyVersionList struct {
	Versions []PolicyVersion `json:"versions"`
}

// PolicyDraftList is the sets that are not in force.
type PolicyDraftList struct {
	Drafts []PolicyDraft `json:"drafts"`
}

// StagePolicy is a change of files, to be kept for an activation.
type StagePolicy struct {
	Base   string       `json:"base,omitempty"` // staged, active (default), or a hash
	Files  []PolicyFile `json:"files,omitempty"`
	Remove []string     `json:"remove,omitempty"`
}

// ActivatePolicy puts To in force in place of From.
type ActivatePolicy struct {
	To     string `json:"to"`
	From   string `json:"from"`
	Reason string `json:"reason,omitempty"`
}

// ReplayPolicy asks what a policy would have decided on the recorded calls.
type ReplayPolicy struct {
	Set   string `json:"set,omitempty"`   // staged (default), active, or a hash
	After uint64 `json:"after,omitempty"` // packets after this sequence number
	Days  int    `json:"days,omitempty"`  // or those of the last days
}
