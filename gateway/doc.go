// Package gateway puts the gateway's rooms together: keys, store, ledger, policy,
// roster, pipeline and surfaces, in the order in which they stand on each other.
//
// Promises: Open starts nothing and refuses what it cannot trust (a broken
// policy file, a ledger that does not fit its head, keys others may read); Run
// settles what an earlier process left open before it serves anything.
//
// It must never import the agent, a platform package or a handler, and it holds
// no rule of its own: rooms decide, this one wires.
package gateway
