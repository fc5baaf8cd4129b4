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
