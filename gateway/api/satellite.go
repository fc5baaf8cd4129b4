package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Satellite is a process that brings tools over the bus.
type Satellite struct {
	ID       capabilities.NodeID `json:"satellite_id"`
	Service  string              `json:"service"` // its tools are tool.SERVICE.ACTION
	State    string              `json:"state"`   // pending, approved, denied or revoked
	Host     string              `json:"host"`    // in its own words, as platform and agent
	Platform string              `json:"platform"`
	Agent    string              `json:"agent,omitempty"`
	Key      string              `json:"key"`              // public nkey
	Health   string              `json:"health,omitempty"` // ready, not_ready, stale or gone; of an approved one
	Why      string              `json:"why,omitempty"`    // of the health
	// SeenAt is when its last heartbeat came; what follows is what that said.
	SeenAt            *time.Time               `json:"seen_at,omitempty"`
	Active            int                      `json:"active"` // calls that run
	Load              float64                  `json:"load"`   // 1: as much as it can take
	UptimeS           int64                    `json:"uptime_s"`
	ManifestHash      string                   `json:"manifest_hash,omitempty"`
	Problem           string                   `json:"problem,omitempty"`            // why its tools are not taken
	RefusedHeartbeats uint64                   `json:"refused_heartbeats,omitempty"` // repeated, out of order, or by a wrong clock
	BreakerOpen       bool                     `json:"breaker_open,omitempty"`       // calls go to others for a moment
	JoinedAt          time.Time                `json:"joined_at"`
	DecidedAt         *time.Time               `json:"decided_at,omitempty"`
	DecidedBy         capabilities.PrincipalID `json:"decided_by,omitempty"`
	Reason            string                   `json:"reason,omitempty"` // of the decision
}

// InviteSatellite asks for a code for one satellite.
type InviteSatellite struct {
	Service string `json:"service"`
	// AutoApprove lets in whoever proves the code.
	AutoApprove bool `json:"auto_approve,omitempty"`
	TTLS        int  `json:"ttl_s,omitempty"` // default 600
}

// InvitedSatellite is the code, which is told this once.
type InvitedSatellite struct {
	Paste   string    `json:"paste"`
	Service string    `json:"service"`
	Expires time.Time `json:"expires_at"`
}

// BusKeys are the public keys that a NATS server elsewhere has to know.
type BusKeys struct {
	Gateway string `json:"gateway"` // user nkey of the gateway
	Issuer  string `json:"issuer"`  // account nkey that signs who may connect
	System  string `json:"system"`  // user nkey that may end connections, where the server lets it
}

// SatelliteList is the roster of satellites.
type SatelliteList struct {
	Satellites []Satellite `json:"satellites"`
}
