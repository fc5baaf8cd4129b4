// Package secret keeps what agents may have delivered but never see: values sealed
// at rest or read from where the admin keeps them, and references, by which an agent
// may name one (promise 5 of docs/architecture.md, S0-33 … S0-43).
//
// Promises: a value leaves by Resolve alone, and only for a reference that its agent
// and its tool may use; whoever names what is not theirs learns nothing about what
// there is; programs are run without a shell, and only those that the data directory
// of the gateway names; no log, error or list holds a value.
//
// It must never import gateway/dispatch, gateway/front, pairing or agent.
package secret
