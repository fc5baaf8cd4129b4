// Package boot tells one run of the system from the next: what a program wrote without a sync is
// kept as long as the system runs, whatever becomes of the program, and may be lost with it.
//
// Promises: two equal IDs are of one run of one system; where nothing says so for certain, there
// is no ID. It starts nothing and keeps nothing.
//
// It must never import another room: what a node and a satellite write alike stands on it.
package boot
