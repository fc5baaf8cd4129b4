package policy

import "github.com/handrail-dev/handrail/capabilities/address"

// Address is what a URL points at, as far as its text tells.
type Address = address.Class

// The classes.
const (
	AddressNone      = address.None
	AddressName      = address.Name
	AddressPublic    = address.Public
	AddressLoopback  = address.Loopback
	AddressPrivate   = address.Private
	AddressLinkLocal = address.LinkLocal
	AddressMetadata  = address.Metadata
	AddressOther     = address.Other
)

// Destination is a URL as policy sees it.
type Destination = address.Destination

// ClassifyURL reads a URL the way browsers do; see address.Classify.
func ClassifyURL(raw string) Destination { return address.Classify(raw) }
