// Command spawn measures what a program's start costs behind walls: from a runner that stands
// ready, from none, without namespaces, bare, in bwrap and in @anthropic-ai/sandbox-runtime.
//
// Promises: all of them start the same program in the same run, in turn; what is said is the median
// until its first output and until everything of it has ended. The program is this one's own
// runner, not the product's.
//
// It must never import anything of this module but platform/sandbox, platform/procguard and
// test/bench/figures.
package main
