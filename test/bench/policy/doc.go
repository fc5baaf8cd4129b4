// Command policy measures what deciding, asking and proving cost: both evaluations
// of a call, a consent check, a ticket, a whole call, a stop, the check of the
// chain. It runs the benchmarks beside the code and test/bench, and makes one table.
//
// Promises: every figure stands beside its floor, measured in the same run; what
// takes microseconds is the quickest of many short rounds, because the machine is
// shared and what others take of it only adds.
//
// It must never import anything of this module but test/bench/figures.
package main
