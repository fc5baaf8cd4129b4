// Command bench measures what the project promises about speed and size, and
// prints it beside what the same machine does without us, measured in the same
// run: `go run ./test/bench [--quick] [--json] [--out docs/benchmarks.md]`.
//
// Promises: every process that takes part is a real one (this program starts
// itself again in other roles, and the real binary where its size, start or
// memory is the question); result and floor alternate, round by round; what is
// shown is the median of the rounds, and a ratio is the median of the rounds'
// ratios; a missed target is shown as missed.
//
// It must never import cmd, and nothing may import it.
package main
