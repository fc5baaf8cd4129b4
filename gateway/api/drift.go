package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// DriftEvent is one thing that was seen and not granted.
type DriftEvent struct {
	ID        string                   `json:"drift_id"`
	Seq       uint64                   `json:"seq"` // of its packet in the ledger
	At        time.Time                `json:"at"`
	Call      capabilities.CallID      `json:"call_id,omitempty"`
	Tool      capabilities.ToolID      `json:"tool_id,omitempty"` // empty: a page showed it
	Principal capabilities.PrincipalID `json:"principal,omitempty"`
	Lane      capabilities.LaneID      `json:"lane,omitempty"`
	Node      capabilities.NodeID      `json:"node_id,omitempty"`
	Signal    string                   `json:"signal"`   // network, write, secret, surface, isolation or other
	Severity  string                   `json:"severity"` // warning, violation or critical
	Key       string                   `json:"key"`
	Declared  bool                     `json:"declared"` // the tool declares the key; this call was not granted it, or not for this
	Evidence  string                   `json:"evidence,omitempty"`
	Count     uint32                   `json:"count"`
	Runner    string                   `json:"runner_fingerprint,omitempty"`
	Response  string                   `json:"response"` // recorded, refused, killed, quarantined or restricted
	Envelope  string                   `json:"envelope_hash,omitempty"`
	Profile   string                   `json:"capability_profile_id,omitempty"`
	Snapshot  string                   `json:"policy_snapshot_id,omitempty"`
	Raises    int                      `json:"raises"` // levels by which it raises the risk of the tool on the node now
	Open      bool                     `json:"open"`   // nobody has resolved it
	// ResolvedAt, ResolvedBy and Reason are of the person who resolved it.
	ResolvedAt *time.Time               `json:"resolved_at,omitempty"`
	ResolvedBy capabilities.PrincipalID `json:"resolved_by,omitempty"`
	Reason     string                   `json:"reason,omitempty"`
}

// QuarantinedRunner is what takes no calls until a person lifts that.
type QuarantinedRunner struct {
	Runner  string                      `json:"runner_fingerprint"`
	Node    capabilities.NodeID         `json:"node_id"`
	Class   capabilities.IsolationClass `json:"isolation_class"`
	Walls   string                      `json:"walls_missing,omitempty"`
	Program string                      `json:"program"` // its address, or its name where it is built in
	Tool    capabilities.ToolID         `json:"tool_id"` // of the last event
	Event   string                      `json:"drift_id"`
	Since   time.Time                   `json:"since"`
}

// RestrictedTool is a tool that is not called until a person has reviewed its manifest.
type RestrictedTool struct {
	Tool  capabilities.ToolID `json:"tool_id"`
	Event string              `json:"drift_id"`
	Since time.Time           `json:"since"`
	// ManifestThen is the hash of its manifest when it was restricted, ManifestHash of that of now,
	// which a review names; empty: there is no such tool now.
	ManifestThen string   `json:"manifest_then"`
	ManifestHash string   `json:"manifest_hash"`
	Keys         []string `json:"keys"` // that it declares now
}

// RaisedRisk is by how much the risk of a tool is raised on a node.
type RaisedRisk struct {
	Tool   capabilities.ToolID `json:"tool_id"`
	Node   capabilities.NodeID `json:"node_id"`
	Levels int                 `json:"levels"`      // 1 to 3
	Clean  int                 `json:"clean_calls"` // since the last event; 1,000 end it
}

// DriftList is events, the newest first, and what holds because of events.
type DriftList struct {
	Events      []DriftEvent        `json:"events"`
	Before      uint64              `json:"before,omitempty"` // continues the list; absent: there are no more
	Quarantined []QuarantinedRunner `json:"quarantined"`
	Restricted  []RestrictedTool    `json:"restricted"`
	Raised      []RaisedRisk        `json:"raised"`
}

// DriftReason says why a person ends what drift brought about.
type DriftReason struct {
	Reason string `json:"reason"`
}

// ResolveDrift is a person's word that they looked at events.
type ResolveDrift struct {
	Events []string `json:"events"` // drift_id of each, 1 to 200
	Reason string   `json:"reason"`
}

// ResolvedDrift is events that a person resolved together.
type ResolvedDrift struct {
	Events []DriftEvent `json:"events"`
}

// ReviewTool is a person's word that they reviewed a restricted tool.
type ReviewTool struct {
	ManifestHash string `json:"manifest_hash"` // that they looked at
	Reason       string `json:"reason"`
}

// DriftEnded is what a person ended.
type DriftEnded struct {
	Runner string              `json:"runner_fingerprint,omitempty"`
	Tool   capabilities.ToolID `json:"tool_id,omitempty"`
	Status string              `json:"status"` // lifted or reviewed
}
