package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Subscription is a browser that is told when something waits.
type Subscription struct {
	ID        string                   `json:"subscription"`
	Principal capabilities.PrincipalID `json:"principal"`
	Name      string                   `json:"name"`    // by its person
	Service   string                   `json:"service"` // the push service's host
	CreatedAt time.Time                `json:"created_at"`
}

// Push is what a browser needs to be told, and those that are.
type Push struct {
	Key           string         `json:"key"` // base64url; empty: nobody can be told
	Subscriptions []Subscription `json:"subscriptions"`
}

// Subscribe is a PushSubscription as its toJSON returns it, and a name.
type Subscribe struct {
	Name     string        `json:"name,omitempty"` // of the browser, at most 64 bytes
	Endpoint string        `json:"endpoint"`
	Keys     SubscribeKeys `json:"keys"`
}

// SubscribeKeys are the keys of a subscription.
type SubscribeKeys struct {
	P256dh string `json:"p256dh"` // base64url
	Auth   string `json:"auth"`   // base64url
}

// Unsubscribed names the browser that is told no more.
type Unsubscribed struct {
	Subscription string `json:"subscription"`
}
