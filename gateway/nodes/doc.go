// Package nodes is the gateway's side of its devices: the QUIC listener, the
// invitations, the roster that says who is in, the session of each node that is
// connected, and the call streams that dispatch sends its tickets on.
//
// Promises: who a device is comes from its TLS key and the roster, never from
// what it says; a revocation closes the connection at once and holds against
// every reconnect; a dial counts for nothing before its hello was acknowledged; a
// newer connection of a node takes over from an older; "disconnected" is said of
// a call only if no handler can have started it; an idle node costs three
// goroutines and no buffers of ours.
//
// It must never import a surface, dispatch, policy or anything of the agent.
// QUIC types stay inside.
package nodes
