// Package link is the node's connection to its gateway: joining a site, dialling
// and saying hello, heartbeats and readiness, and a stream for each call that the
// gateway orders.
//
// Promises: it talks to the pinned site only; it comes back by itself
// after every cut and restart, with jitter, until a person has put it out; its key
// and certificate survive a crash at any moment of joining and rotating; a call's
// context ends when the gateway resets its stream, not when the network fails, so
// that an answer can still reach the journal.
//
// It must never import the gateway, policy or a handler, and it decides nothing
// about a call. QUIC types stay inside.
package link
