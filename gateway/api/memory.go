package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Fact is what a worker remembers of its person.
type Fact struct {
	ID          string                   `json:"fact_id"`
	Principal   capabilities.PrincipalID `json:"principal"`
	Subject     string                   `json:"subject"`
	Attribute   string                   `json:"attribute"`
	Text        string                   `json:"text"`
	Source      string                   `json:"source"`      // who said it, and in which turn
	Confidence  float64                  `json:"confidence"`  // from 0 to 1
	Sensitivity string                   `json:"sensitivity"` // low or high
	Created     time.Time                `json:"created_at"`
	Expires     time.Time                `json:"expires_at,omitzero"`
}

// FactList is facts.
type FactList struct {
	Facts []Fact `json:"facts"`
}

// MemoryOwners are those of whom something is remembered.
type MemoryOwners struct {
	Principals []MemoryOwner `json:"principals"`
}

// MemoryOwner is one of them.
type MemoryOwner struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Facts     int                      `json:"facts"`
}

// KeepFact is a fact to keep, in place of the one of the same subject and attribute.
type KeepFact struct {
	Subject     string    `json:"subject"`
	Attribute   string    `json:"attribute"`
	Text        string    `json:"text"`                  // at most 4,096 bytes
	Source      string    `json:"source"`                // who said it, and in which turn
	Confidence  float64   `json:"confidence,omitempty"`  // from 0 to 1; default 1
	Sensitivity string    `json:"sensitivity,omitempty"` // low or high; default low; its words can raise it
	Agreed      bool      `json:"agreed,omitempty"`      // the person agreed to keep it; required of a private one
	Expires     time.Time `json:"expires_at,omitzero"`
}

// EditFact is other words for a fact, another end, or both.
type EditFact struct {
	Text    string    `json:"text,omitempty"`      // default: its words stay
	Agreed  bool      `json:"agreed,omitempty"`    // as of KeepFact; its own words were agreed to
	Expires time.Time `json:"expires_at,omitzero"` // default: its end stays
	Lasting bool      `json:"lasting,omitempty"`   // it has no end any more
}

// Forgotten is a fact that is kept no longer.
type Forgotten struct {
	ID     string `json:"fact_id"`
	Status string `json:"status"`
}
