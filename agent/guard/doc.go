// Package guard is the device's last word (hop 9 of docs/architecture.md): it checks the gateway's
// order against itself, the stop switch, the owner's rules and the isolation that this host really
// has. It can only narrow.
//
// Promises: a ticket that is altered, repeated, late, meant for another node or
// from before the last stop never reaches a handler; the owner's deny wins over
// any grant; the stop switch survives a restart and works without the gateway.
//
// It must never import the gateway, a platform package or a handler, and it never
// derives an envelope: it hashes the bytes it was given.
package guard
