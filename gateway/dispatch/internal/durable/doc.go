// Package durable makes the one value that dispatch may order: a call whose request,
// decision and intent are durable.
//
// Promises: only Commit makes one, and only after one commit of the store took all three
// packets; there is no other constructor, and a zero value panics where it is used.
//
// It must never import a room of the gateway but store and ledger.
package durable
