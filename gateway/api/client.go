package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// ClientAsk is what an OAuth client asks of a person.
type ClientAsk struct {
	Name     string   `json:"name"`           // what it calls itself; nobody checked that
	Host     string   `json:"host,omitempty"` // where its document lies; empty: it registered itself
	Place    string   `json:"place"`          // where the answer goes, in words
	Redirect string   `json:"redirect"`
	Audience string   `json:"audience"`         // what its access tokens are for
	Scopes   []string `json:"scopes,omitempty"` // that it names
	// Refused is why it cannot be let in, and Back where the browser goes with that; empty: a person
	// decides.
	Refused  string                   `json:"refused,omitempty"`
	Back     string                   `json:"back,omitempty"`
	As       capabilities.PrincipalID `json:"as"` // a name for it that is free
	Families []ToolFamily             `json:"families"`
	Passkey  bool                     `json:"passkey,omitempty"` // a passkey of the visitor's has to confirm that it is let in
}

// ToolFamily is a group of tools that a client can be let use.
type ToolFamily struct {
	Name  string `json:"name"`
	Tools int    `json:"tools"`
	Runs  int    `json:"runs"`            // of them policy permits so many at once
	Asks  int    `json:"asks"`            // and so many after a person said yes
	Wants bool   `json:"wants,omitempty"` // the client names it
}

// AllowClient lets an OAuth client in.
type AllowClient struct {
	Request    string                   `json:"request"` // what it sent the browser with
	Principal  capabilities.PrincipalID `json:"principal"`
	Lane       capabilities.LaneID      `json:"lane,omitempty"`
	Face       string                   `json:"face,omitempty"`
	TTLSeconds int64                    `json:"ttl_s,omitempty"`
	Tools      []string                 `json:"tools"` // families
}

// RefuseClient does not let one in.
type RefuseClient struct {
	Request string `json:"request"`
}

// AnsweredClient is where the person's browser goes with the answer.
type AnsweredClient struct {
	Redirect string `json:"redirect"`
	Place    string `json:"place"`
	Token    *Token `json:"token,omitempty"`
}

// ClientStep is one step of an OAuth client's attempt.
type ClientStep struct {
	At     time.Time `json:"at"`
	From   string    `json:"from"`
	Client string    `json:"client,omitempty"`
	What   string    `json:"what"`
	Fault  string    `json:"fault,omitempty"`
	Times  int       `json:"times"`
}
