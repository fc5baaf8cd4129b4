package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Token is a bearer token without its secret, or a session of the console.
type Token struct {
	ID        string                   `json:"token_id"`
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"` // agent, viewer, operator or admin
	Lane      capabilities.LaneID      `json:"lane"`
	CreatedAt time.Time                `json:"created_at"`
	CreatedBy capabilities.PrincipalID `json:"created_by"`
	ExpiresAt time.Time                `json:"expires_at,omitzero"` // zero: never
	RevokedAt time.Time                `json:"revoked_at,omitzero"`
	Parent    string                   `json:"session_of,omitempty"` // of a session: the token that opened it
	Opened    string                   `json:"opened_by,omitempty"`  // by what a session was opened: link, password, passkey or oidc
	Face      string                   `json:"face,omitempty"`       // search: MCP lists begin with the search for tools
	// Client, Audience and Tools are those of an OAuth client: what it calls itself and where from,
	// the address that its access tokens are for, and the families of tools that it reaches.
	Client   string `json:"client,omitempty"`
	Audience string `json:"audience,omitempty"`
	Tools    string `json:"tools,omitempty"`
}

// MadeToken is a token that was just created, with its secret, which is shown once.
type MadeToken struct {
	Token
	Secret string `json:"token"`
}

// Caller is the caller itself, as its token says.
type Caller struct {
	Token     string                   `json:"token_id"`
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"`
	Lane      capabilities.LaneID      `json:"lane"`
	Expires   time.Time                `json:"expires_at,omitzero"`
	Session   bool                     `json:"session,omitempty"` // of the console
	// Bus is where a worker on another machine may ask in place of HTTPS; absent for all others.
	Bus *WorkerBus `json:"bus,omitempty"`
}

// CreateToken asks for a token.
type CreateToken struct {
	Principal  capabilities.PrincipalID `json:"principal"`
	Role       string                   `json:"role"`
	Lane       capabilities.LaneID      `json:"lane,omitempty"`
	TTLSeconds int64                    `json:"ttl_s,omitempty"`
	Face       string                   `json:"face,omitempty"` // all (default), whole or search: how MCP lists tools to it
}

// TokenList is the tokens.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}
