// Package storage holds the commands about where a site is kept: check, copy and move its store.
//
// Promises: nothing is moved while a gateway has the store open; the ledger is verified before and
// after; what was is kept until its admin removes it.
//
// It must never import the room of another subject's commands.
package storage
