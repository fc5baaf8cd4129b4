// Package opencalls knows the calls that are open: their intent is durable and their end is
// not. It finds them after a crash, asks their nodes what became of them, remembers request
// IDs, and keeps results for retries.
//
// Promises: the rows and the mark change in the same commit as the packets, so a start finds
// every open call and no other; a node speaks for its own calls only; a call that nobody can
// tell of ends as an unknown outcome, and a late word on it is passed on once.
//
// It must never import dispatch, which owns what an end means, nor a surface.
package opencalls
