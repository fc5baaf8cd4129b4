// Package remote is what a satellite and the gateway say to each other on the bus: subjects, the
// heartbeat and how it is known to be whose, requests, replies, and the code by which a
// satellite joins. Gateway and satellites use it alike; docs/satellites.md has the same on one
// page for other languages.
//
// The story in the order of reading: subject.go (who speaks where), heartbeat.go (that a
// satellite is there), key.go (by what it need not sign each time), message.go (calls and what
// comes back), paste.go (how it joins).
//
// Promises: every message has a size that is checked before it is read; a message with a field
// that nobody knows, or one that is there twice, is refused; a reader returns a value or an error,
// never both; what was read can be written again to the same value.
//
// It must never import a transport or do I/O: NATS lives in gateway/bus and satellite. Of this
// module it imports the capabilities root, canonical and catalog/tools only.
package remote
