// Package taint knows which families' untrusted content has been read in which lane and by
// which principal. A lane's name is its caller's to choose, so an agent that began another
// one would otherwise take along what it has read and leave the taint behind.
//
// Promises: both are tainted in the commit that records the result, before its caller sees
// it, and never made clean while they read.
//
// It must never import a room of the gateway but store.
package taint
