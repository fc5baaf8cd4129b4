// Package observe keeps what a call really did, as capability keys, and compares
// it with what the call was granted (S1-43). It is the node's half of drift: the
// runner asks it after and during every call.
//
// Promises: bounded memory per call whatever a handler reports; a privileged key
// outside the grants is critical at once (S1-50, S1-51).
//
// It must never import the gateway, a platform package or a handler.
package observe
