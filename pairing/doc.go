// Package pairing is how a device becomes a node of a site: the identities of
// sites, gateways and nodes with their keys and certificates, the paste that
// invites a device, the handshake that proves it, and the states a node can be in.
//
// Promises: it works over any byte stream, given bytes that are bound to it (a
// TLS exporter); a secret cannot be printed, logged or marshalled; a paste says
// nothing to whoever does not hold its secret; every identifier has check digits,
// so that a slip of the hand is told apart from an unknown name.
//
// It must never import a transport, a store or another room: standard library and
// the capabilities root only. It reads no file but the key files it is told to.
package pairing
