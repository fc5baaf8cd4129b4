package api

import (
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// User is a person who signs in under a name of their own.
type User struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"`     // viewer, operator or admin
	TokenID   string                   `json:"token_id"` // the record behind the user's sessions
	Password  bool                     `json:"password"` // there is one
	Passkeys  []Passkey                `json:"passkeys"`
	CreatedAt time.Time                `json:"created_at"`
	// Issuer is the OpenID provider where they sign in, and nowhere else; their groups there say
	// their role at each sign-in. Absent: they sign in here.
	Issuer string `json:"issuer,omitempty"`
}

// Passkey is a key of a user's that an authenticator keeps.
type Passkey struct {
	ID        string    `json:"passkey"`         // base64url of the credential's ID
	Name      string    `json:"name"`            // by its user
	Place     string    `json:"place"`           // the name that the gateway was called by: it works there only
	Sync      bool      `json:"synced,omitzero"` // its authenticator may copy it to others
	CreatedAt time.Time `json:"created_at"`
	UsedAt    time.Time `json:"used_at,omitzero"`
}

// RemovedUser is a user that was removed.
type RemovedUser struct {
	User
	Ended int      `json:"tokens_ended"`          // API tokens of theirs that ended with them
	Made  []string `json:"tokens_made,omitempty"` // tokens that they made for others, and that go on
}

// Account is one's own ways to sign in.
type Account struct {
	Principal  capabilities.PrincipalID `json:"principal"`
	Role       string                   `json:"role"`
	Password   bool                     `json:"password"` // there is one
	Passkeys   []Passkey                `json:"passkeys"`
	Sessions   []Token                  `json:"sessions"`             // that are open
	Session    string                   `json:"session"`              // the one that asks; empty: a token asks
	FreshUntil time.Time                `json:"fresh_until,omitzero"` // until when this session may change how one signs in
}

// UserList is the users.
type UserList struct {
	Users []User `json:"users"`
}

// AddUser asks for a user.
type AddUser struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"`
	Password  *string                  `json:"password,omitempty"` // absent: none
}

// SetPassword is a new password.
type SetPassword struct {
	Password string `json:"password"`
}

// SetRole is a new role.
type SetRole struct {
	Role string `json:"role"`
}

// EndedSessions says how many sessions were ended.
type EndedSessions struct {
	Ended int `json:"ended"` // sessions
}

// AddPasskey is a passkey that a browser made.
type AddPasskey struct {
	Name       string          `json:"name"`       // by its user, at most 64 bytes
	Credential json.RawMessage `json:"credential"` // what navigator.credentials.create returned, as JSON
}

// RemovedPasskey names the passkey that was removed.
type RemovedPasskey struct {
	Passkey string `json:"passkey"`
}

// LogIn asks for a link that signs in.
type LogIn struct {
	Role string `json:"role,omitempty"` // at most the token's own, which is the default
}

// Confirm names the request that is to be confirmed.
type Confirm struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"`
}
