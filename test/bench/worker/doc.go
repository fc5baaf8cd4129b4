// Command worker measures what a worker adds: the router, the gate, the facts that a turn is given,
// the engine around each call, an idle worker, and how soon a model's first words are shown. It
// runs the benchmarks beside the code, and the built program beside an endpoint of its own.
//
// Promises: every figure stands beside its floor, measured in the same run; what takes microseconds
// is the quickest of many short rounds, because the machine is shared.
//
// It must never import anything of this module but test/bench/figures.
package main
