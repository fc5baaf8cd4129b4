package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Health is what anybody may know of a gateway; all but the first two are told to holders of a
// token alone.
type Health struct {
	Status    string              `json:"status"`  // ok, or ready
	Service   string              `json:"service"` // handrail
	SiteID    capabilities.SiteID `json:"site_id,omitempty"`
	GatewayID string              `json:"gateway_id,omitempty"`
	Version   string              `json:"version,omitempty"`
	StartedAt time.Time           `json:"started_at,omitzero"`
}

// Ours reports whether the answer is one of a Handrail gateway.
func (h Health) Ours() bool { return h.Service == "handrail" || h.SiteID != "" }

// Status is how a gateway stands.
type Status struct {
	SiteID    capabilities.SiteID `json:"site_id"`
	GatewayID string              `json:"gateway_id"`
	Version   string              `json:"version"`
	StartedAt time.Time           `json:"started_at"`
	Nodes     NodeCounts          `json:"nodes"`
	QUICAddr  string              `json:"quic_addr"`
	HTTPAddr  string              `json:"http_addr"`
	MCPURL    string              `json:"mcp_url"`
	// Fingerprint is that of the certificate of HTTPS, as browsers show it.
	Fingerprint string `json:"fingerprint,omitempty"`
	// ReadOnly says that the gateway's disk is full: nothing is carried out, while stop,
	// answers and reading work.
	ReadOnly bool        `json:"read_only,omitempty"`
	Ledger   LedgerState `json:"ledger"`
	Policy   PolicyState `json:"policy"`
}

// NodeCounts are the nodes of the roster, without those that were put out.
type NodeCounts struct {
	Total     int `json:"total"`
	Connected int `json:"connected"`
	Pending   int `json:"pending"`
}

// LedgerState is where the ledger's chain ends.
type LedgerState struct {
	Seq  uint64 `json:"seq"`
	Head string `json:"head"` // hash of the last durable packet
}

// PolicyState is the policy in force.
type PolicyState struct {
	Snapshot string   `json:"snapshot_id"`
	Files    []string `json:"files"`
}

// SignInLink is a code for the console that is good once. In the link it stands behind the #,
// which browsers send to nobody and no log keeps.
type SignInLink struct {
	Code    string    `json:"code"`
	URL     string    `json:"url"`
	Expires time.Time `json:"expires_at"`
	// Public is the gateway's address for other devices, if it was told one.
	Public string `json:"public_url,omitempty"`
}
