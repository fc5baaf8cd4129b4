// Package chain is the arithmetic of tamper evidence, shared by the gateway's
// ledger and the node's journal: how an entry is hashed onto the one before it,
// how a head is signed and the other side's head countersigned, how a segment
// sums up entries that were pruned, and how a reader checks all of that.
//
// Promises: pure and deterministic; every hashed or signed text begins with its
// own domain name and consists of length-prefixed fields, so that no two meanings
// share bytes; it keeps no state but a Walker's.
//
// It must never import another package of this module and does no I/O.
package chain
