// Package tools is the protocol layer of the tool plane (S3-28): what a provider is on record
// as, what it says of its tools, and the one way in which that becomes descriptors. Gateway
// and nodes use it alike, so that both mean the same by a provider's tool.
//
// The story in the order of reading: provider.go (the record of a provider, its kinds),
// manifest.go (what it says of its tools, content-addressed), describe.go (descriptors made of
// that), names.go (the IDs they get), clean.go (what becomes of descriptions), schema.go (what
// becomes of schemas), request.go (how a call becomes one of an HTTP API), inprocess.go (tools
// that are compiled in), domain.go (the domains that are plumbing).
//
// Promises: the same record and manifest give the same descriptors, byte for byte; what a
// provider writes cannot take a built-in family's name, hide characters, or make a schema
// without bounds; a tool that cannot be described is refused by name and the others are not.
//
// It must never import anything of this module but the capabilities root, canonical and
// catalog, and never do I/O.
package tools
