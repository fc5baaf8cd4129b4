// Package roster manages who is in: nodes with what they may do, pairing of new ones,
// satellites, and workers on other machines.
//
// Promises: a code for pairing goes to a terminal or to a pipe, and to no log; a person confirms
// the key of what comes in, or says before that nobody will; a command that waits withdraws its
// code when it is ended.
//
// It must never import gateway/nodes or gateway/bus: it is a client of the REST surface.
package roster
