package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// SignIn is a sign-in at the authorization server of an MCP server. It holds no token.
type SignIn struct {
	Name     string   `json:"name"`
	Server   string   `json:"server"` // the MCP server's address
	Net      []string `json:"net,omitempty"`
	Resource string   `json:"resource"` // what its tokens are for
	Issuer   string   `json:"issuer"`
	Client   string   `json:"client_id"`
	// Secret is the name of the stored secret that holds the access token.
	Secret string                   `json:"secret"`
	By     capabilities.PrincipalID `json:"created_by"`
	At     time.Time                `json:"created_at"`
	Until  time.Time                `json:"expires_at"` // of the access token, which is refreshed before; zero: not said
	// Ended says why somebody has to sign in again.
	Ended string `json:"ended,omitempty"`
}

// BeginSignIn begins a sign-in.
type BeginSignIn struct {
	Name   string   `json:"name"`
	Server string   `json:"server"`
	Client string   `json:"client_id,omitempty"` // default: the gateway registers itself
	Net    []string `json:"net,omitempty"`       // hosts of the site's own, besides the server's
}

// StartedSignIn is where a person says yes.
type StartedSignIn struct {
	Address  string    `json:"address"` // of the authorization server, for the person's browser
	Issuer   string    `json:"issuer"`
	Host     string    `json:"host"`             // where the person is sent
	Scopes   []string  `json:"scopes,omitempty"` // what is asked for, as the server calls it
	Redirect string    `json:"redirect_uri"`     // where it sends the browser back
	Until    time.Time `json:"expires_at"`
}

// FinishSignIn is what the authorization server sent the browser back with.
type FinishSignIn struct {
	Place  string `json:"place"` // the last part of the address
	State  string `json:"state"`
	Code   string `json:"code,omitempty"`
	Issuer string `json:"iss,omitempty"`
	Error  string `json:"error,omitempty"`
}

// SignInList is the sign-ins.
type SignInList struct {
	SignIns []SignIn `json:"sign_ins"`
}
