// Package naming finds the things that a person means by what they typed: an ID, a label, or
// the beginning of one. The command line and the console share it.
//
// Promises: pure functions; several things are returned, and none is chosen.
//
// It must never import another package of this module.
package naming
