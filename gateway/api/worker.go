package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Worker is a worker on another machine, which came with a code.
type Worker struct {
	ID        string                   `json:"worker_id"`
	Name      string                   `json:"name"`
	Principal capabilities.PrincipalID `json:"principal"` // whose calls it makes, and whose jobs it takes
	State     string                   `json:"state"`     // pending, approved, denied or revoked
	Host      string                   `json:"host"`      // in its own words, as platform and agent
	Platform  string                   `json:"platform"`
	Agent     string                   `json:"agent,omitempty"`
	Key       string                   `json:"key"`                // its public key, base64url
	Token     string                   `json:"token_id,omitempty"` // the ID of its token
	JoinedAt  time.Time                `json:"joined_at"`
	DecidedAt *time.Time               `json:"decided_at,omitempty"`
	DecidedBy capabilities.PrincipalID `json:"decided_by,omitempty"`
	Reason    string                   `json:"reason,omitempty"` // of the decision
}

// WorkerList is the roster of workers.
type WorkerList struct {
	Workers []Worker `json:"workers"`
}

// InviteWorker asks for a code for one worker.
type InviteWorker struct {
	Name      string                   `json:"name"`
	Principal capabilities.PrincipalID `json:"principal,omitempty"` // default: the name
	// AutoApprove lets in whoever proves the code.
	AutoApprove bool `json:"auto_approve,omitempty"`
	TTLS        int  `json:"ttl_s,omitempty"` // default 600
}

// InvitedWorker is the code, which is told this once.
type InvitedWorker struct {
	Paste     string                   `json:"paste"`
	Name      string                   `json:"name"`
	Principal capabilities.PrincipalID `json:"principal"`
	Invite    string                   `json:"invite"` // the code's public key
	Expires   time.Time                `json:"expires_at"`
}

// JoinWorker is what a worker says to come in. Its signatures are over the lines that
// pairing.WorkerAsk draws.
type JoinWorker struct {
	Invite   string `json:"invite"` // public key of the code, base64url
	Key      string `json:"key"`    // its own
	Host     string `json:"host"`
	Platform string `json:"platform"`
	Agent    string `json:"agent,omitempty"`
	Seq      int64  `json:"seq"`             // grows with each ask
	Sig      string `json:"sig"`             // by its own key
	Proof    string `json:"proof,omitempty"` // by the code's key, until it is on the roster
}

// WorkerVerdict is how it stands.
type WorkerVerdict struct {
	Worker    string                   `json:"worker_id"`
	Name      string                   `json:"name"`
	Principal capabilities.PrincipalID `json:"principal"`
	State     string                   `json:"state"`
	Site      capabilities.SiteID      `json:"site_id"`
	Token     string                   `json:"token,omitempty"` // of an approved one; told this once
	Message   string                   `json:"message,omitempty"`
}

// WorkerBus is where a worker reaches the bus, by the key that it came in by.
type WorkerBus struct {
	Worker string   `json:"worker_id"`
	Addrs  []string `json:"addrs"`
	Sum    string   `json:"sum,omitempty"` // SHA-256 of its certificate in hex, if it is known by that
}
