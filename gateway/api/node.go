package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Node is a paired device, or one that wants to be.
type Node struct {
	ID          capabilities.NodeID         `json:"node_id"`
	Label       string                      `json:"label"`
	Trust       string                      `json:"trust"`
	Owner       capabilities.PrincipalID    `json:"owner,omitempty"` // whose device it is
	State       string                      `json:"state"`           // pending, approved, denied or revoked
	Platform    string                      `json:"platform"`
	Arch        string                      `json:"arch"`
	Host        string                      `json:"host"`
	Agent       string                      `json:"agent_version"`
	Fingerprint string                      `json:"key_fingerprint"`
	Connected   bool                        `json:"connected"`
	LastSeen    time.Time                   `json:"last_seen,omitzero"`
	JoinedAt    time.Time                   `json:"joined_at"`
	DecidedAt   time.Time                   `json:"decided_at,omitzero"`
	DecidedBy   capabilities.PrincipalID    `json:"decided_by,omitempty"`
	Reason      string                      `json:"reason,omitempty"` // of the decision
	Allow       []string                    `json:"allow"`            // capability IDs, families as tyrum.browser.*, or *
	Labels      []string                    `json:"labels"`
	Invite      string                      `json:"invite_id,omitempty"`
	Offers      []capabilities.CapabilityID `json:"offers,omitempty"` // said at joining
	// Wants is what the node offers now and the allowlist does not have: the difference
	// for the person who edits the list.
	Wants       []capabilities.CapabilityID `json:"wants,omitempty"`
	Stopped     bool                        `json:"stopped,omitempty"`
	StopEpoch   uint64                      `json:"stop_epoch,omitempty"`
	SiteStopped bool                        `json:"site_stopped,omitempty"` // it obeys the site's stop
	CatalogSkew bool                        `json:"catalog_skew,omitempty"` // its tools are of another version
	// Transport carries the node's connection: quic, or where UDP is dropped tcp or websocket.
	Transport    string       `json:"transport,omitempty"`
	Capabilities []Capability `json:"capabilities"` // sorted
	// Pools are those of the node's isolation classes in which calls run, wait or were refused.
	Pools []Pool `json:"pools,omitempty"`
}

// Pool is how the calls of one isolation class fare on a node, by its last heartbeat. Each class
// has a queue and places of its own.
type Pool struct {
	Class   capabilities.IsolationClass `json:"isolation_class"`
	Running uint32                      `json:"running"`
	Most    uint32                      `json:"most"` // that run at once
	Waiting uint32                      `json:"waiting"`
	Queue   uint32                      `json:"queue"`   // that may wait
	Refused uint64                      `json:"refused"` // since the node's start: the queue was full
	Ready   uint32                      `json:"ready"`   // runners that stand ready for programs
	Warm    uint64                      `json:"warm"`    // programs since the node's start that found one
	Cold    uint64                      `json:"cold"`    // programs that waited for one of their own
}

// Capability is the one truth about a capability of a node: ready, or a reason and a fix.
// Policy is not in it: it depends on who asks.
type Capability struct {
	Capability capabilities.CapabilityID   `json:"capability"`
	Tool       capabilities.ToolID         `json:"tool_id"`
	Available  bool                        `json:"available"`
	Reason     capabilities.Reason         `json:"reason,omitempty"`
	Fix        string                      `json:"fix,omitempty"`   // in the words of the command line
	Action     capabilities.Action         `json:"action,omitzero"` // what Fix asks for
	Isolation  capabilities.IsolationClass `json:"isolation,omitempty"`
	Degraded   string                      `json:"degraded,omitempty"` // what the isolation lacks
	Backend    string                      `json:"backend,omitempty"`
	Devices    []capabilities.Device       `json:"devices,omitempty"`
	Hosts      []string                    `json:"hosts,omitempty"` // that its calls may reach, as the owner named them
	Fake       bool                        `json:"fake,omitempty"`
}

// NodeApproval is what a person decides when a node is let in; empty fields keep what
// the invitation gave.
type NodeApproval struct {
	Allow []string `json:"allow,omitempty"` // capability IDs, families as tyrum.browser.*, or *
	Trust string   `json:"trust,omitempty"`
	Label string   `json:"label,omitempty"`
}

// NodeChange changes what is not nil.
type NodeChange struct {
	Label  *string   `json:"label,omitempty"`
	Trust  *string   `json:"trust,omitempty"`
	Allow  *[]string `json:"allow,omitempty"`  // replaces the list
	Labels *[]string `json:"labels,omitempty"` // replaces the list
	// Owner is whose device it is, for admins to say; empty: nobody's.
	Owner *capabilities.PrincipalID `json:"owner,omitempty"`
}

// Presence is the data of a node event without an ID: who came and went is not
// in the ledger, so it cannot be resumed.
type Presence struct {
	Node      capabilities.NodeID `json:"node_id"`
	Label     string              `json:"label,omitempty"`
	State     string              `json:"state"`
	Connected bool                `json:"connected"`
}

// NodeList is the nodes.
type NodeList struct {
	Nodes []Node `json:"nodes"`
}

// Reason is why a person does what they ask for.
type Reason struct {
	Reason string `json:"reason,omitempty"`
}
