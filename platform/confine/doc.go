// Package confine takes from the running process what it does not need: opening
// files and sockets, starting programs with more rights, memory beyond a bound.
// It is for helpers that run what somebody else wrote, and there is no way back.
//
// Promises: on Linux all of it is given, and a filter of system calls that leaves
// computing, memory and what is open already, or Self fails; elsewhere what the system
// has (Unix: no files, sockets and dumps; Windows: nothing but the job object of
// platform/procguard).
//
// It must never import anything of this module.
package confine
