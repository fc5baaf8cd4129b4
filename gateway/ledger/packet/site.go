package packet

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// The bodies below are of what a site consists of: its devices, satellites, providers, secrets,
// sign-ins, lanes and its stop switch.

// Started is the body of gateway.started.
type Started struct {
	Version  string              `json:"version"`
	Snapshot string              `json:"policy_snapshot_id"`
	Site     capabilities.SiteID `json:"site_id"`
}

// Drain is the body of gateway.drain.began and gateway.drain.cancelled.
type Drain struct {
	Member   string `json:"member,omitempty"` // which of several gateways
	Calls    int    `json:"calls"`            // that run there
	Gateways int    `json:"gateways"`         // the others that serve
}

// SiteRestored is the body of gateway.site.restored: this copy of the site was made of a backup.
type SiteRestored struct {
	Generation uint64    `json:"generation"`
	MadeAt     time.Time `json:"backup_made_at"`
	Version    string    `json:"backup_version"` // of the program that made it
}

// SiteSuperseded is the body of gateway.site.superseded: a node proved a later copy of the site.
type SiteSuperseded struct {
	Generation uint64 `json:"generation"`
	Later      uint64 `json:"later"`
}

// NodeJoined is the body of node.joined.
type NodeJoined struct {
	Invite   string   `json:"invite_id"`
	Key      string   `json:"key"` // its fingerprint
	State    string   `json:"state"`
	Label    string   `json:"label"`
	Trust    string   `json:"trust"`
	Allow    []string `json:"allow"`
	Host     string   `json:"host"`
	Platform string   `json:"platform"`
	Arch     string   `json:"arch"`
}

// NodeApproved is the body of node.approved: the node as it was let in.
type NodeApproved struct {
	By    capabilities.PrincipalID `json:"by"`
	Label string                   `json:"label"`
	Trust string                   `json:"trust"`
	Allow []string                 `json:"allow"`
	Key   string                   `json:"key"` // its fingerprint
}

// NodeChanged is the body of node.changed: what is not nil is another now.
type NodeChanged struct {
	By     capabilities.PrincipalID  `json:"by"`
	Label  *string                   `json:"label,omitempty"`
	Trust  *string                   `json:"trust,omitempty"`
	Allow  *[]string                 `json:"allow,omitempty"`
	Labels *[]string                 `json:"labels,omitempty"`
	Owner  *capabilities.PrincipalID `json:"owner,omitempty"` // empty: nobody's
}

// NodeEnded is the body of node.denied and node.revoked.
type NodeEnded struct {
	By     capabilities.PrincipalID `json:"by"`
	Reason string                   `json:"reason"`
}

// NodeKey is the body of node.key_certified, and with the key before of node.key_rotated.
type NodeKey struct {
	Key string `json:"key"` // its fingerprint
	Old string `json:"old_key,omitempty"`
}

// NodeRegressed is the body of node.journal.regressed: a node's ledger does not continue the one
// that it showed before.
type NodeRegressed struct {
	HadSeq  uint64 `json:"had_seq"`
	HadHash string `json:"had_hash"`
	Seq     uint64 `json:"seq"`
	Hash    string `json:"hash"`
}

// NodeTaken is the body of gateway.node.taken: a person has the node to themselves.
type NodeTaken struct {
	Ended int `json:"ended_calls"`
}

// NodeReturned is the body of gateway.node.returned.
type NodeReturned struct {
	Why        string  `json:"why"`
	DurationMS float64 `json:"duration_ms"`
	Waiting    int     `json:"waiting_calls"`
}

// InviteWithdrawn is the body of node.invite_withdrawn.
type InviteWithdrawn struct {
	ID string                   `json:"invite_id"`
	By capabilities.PrincipalID `json:"by"`
}

// SatelliteInvited is the body of gateway.satellite.invited.
type SatelliteInvited struct {
	Service     string    `json:"service"`
	Invite      string    `json:"invite"` // its public key
	AutoApprove bool      `json:"auto_approve"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// SatelliteJoined is the body of gateway.satellite.joined: it used an invitation.
type SatelliteJoined struct {
	ID       capabilities.NodeID `json:"satellite"`
	Service  string              `json:"service"`
	Key      string              `json:"key"`
	State    string              `json:"state"`
	Host     string              `json:"host"`
	Platform string              `json:"platform"`
	Invite   string              `json:"invite"`
}

// SatelliteDecided is the body of gateway.satellite.decided.
type SatelliteDecided struct {
	ID      capabilities.NodeID `json:"satellite"`
	Service string              `json:"service"`
	State   string              `json:"state"`
	Reason  string              `json:"reason"`
}

// WorkerInvited is the body of gateway.worker.invited.
type WorkerInvited struct {
	Name        string                   `json:"name"`
	Principal   capabilities.PrincipalID `json:"principal"`
	Invite      string                   `json:"invite"` // its public key
	AutoApprove bool                     `json:"auto_approve"`
	ExpiresAt   time.Time                `json:"expires_at"`
}

// WorkerJoined is the body of gateway.worker.joined: it used an invitation.
type WorkerJoined struct {
	ID        string                   `json:"worker"`
	Name      string                   `json:"name"`
	Principal capabilities.PrincipalID `json:"principal"`
	Key       string                   `json:"key"`
	State     string                   `json:"state"`
	Host      string                   `json:"host"`
	Platform  string                   `json:"platform"`
	Invite    string                   `json:"invite"`
}

// WorkerDecided is the body of gateway.worker.decided.
type WorkerDecided struct {
	ID     string `json:"worker"`
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason"`
}

// Stop is the body of the packets of the gateway's stop switch.
type Stop struct {
	Epoch  uint64 `json:"epoch"`
	Reason string `json:"reason"`
	*StopEnded
}

// StopEnded is what a stop ended; a release has none.
type StopEnded struct {
	Calls  int `json:"calls"`
	Grants int `json:"grants"`
}

// NodeStop is the body of the packets of a node's own stop switch.
type NodeStop struct {
	Node  capabilities.NodeID `json:"node"`
	Epoch uint64              `json:"epoch"`
}

// ProviderRemoved is the body of gateway.provider.removed.
type ProviderRemoved struct {
	Provider string              `json:"provider"`
	Host     capabilities.NodeID `json:"host"`
}

// SecretSet is the body of secret.set.
type SecretSet struct {
	Name    string `json:"name"`
	Version int64  `json:"version"`
}

// SecretAllowed is the body of secret.allowed: somebody may use a secret with some tools.
type SecretAllowed struct {
	Name      string                   `json:"name"`
	Reference string                   `json:"secret_ref_id"`
	Alias     string                   `json:"secret_alias"`
	Principal capabilities.PrincipalID `json:"principal"`
	Tools     []capabilities.ToolID    `json:"allowed_tool_ids"`
}

// SecretRemoved is the body of secret.removed.
type SecretRemoved struct {
	Removed    string `json:"removed"` // the secret's name, or a reference's ID
	References int64  `json:"references"`
}

// SecretDone is the body of secret.done: a person said that what was pasted in a lane is over.
type SecretDone struct {
	Lane capabilities.LaneID `json:"lane"`
}

// SignIn is the body of the packets of a sign-in with another party, as they left it.
type SignIn struct {
	Name     string `json:"name"`
	Server   string `json:"server"`
	Issuer   string `json:"issuer"`
	Resource string `json:"resource"`
	Client   string `json:"client_id"`
}

// SignInRemoved is the body of gateway.sign_in.removed.
type SignInRemoved struct {
	Name   string `json:"name"`
	Issuer string `json:"issuer"`
}

// LaneNode is the body of the packets of a node that a lane may use, or may not any more.
type LaneNode struct {
	Lane capabilities.LaneID `json:"lane"`
	Node capabilities.NodeID `json:"node"`
	As   string              `json:"as,omitempty"` // whose lane it is, where the lane began with it
}

// Subscribed is the body of gateway.push.subscribed.
type Subscribed struct {
	ID      string `json:"subscription"`
	Name    string `json:"name"`
	Service string `json:"service"`
}

// Unsubscribed is the body of gateway.push.unsubscribed.
type Unsubscribed struct {
	ID     string `json:"subscription"`
	Reason string `json:"reason"`
}
