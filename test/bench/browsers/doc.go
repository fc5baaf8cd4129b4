// Command browsers measures the browser family as a user has it (MCP over stdio,
// gateway, QUIC, node, Chrome, with policy and durable ledgers) beside Chrome
// driven by bare protocol messages, and beside other browser tools for agents
// where they are installed: `go run ./test/bench/browsers [--quick] [--peers DIR]
// [--out docs/benchmarks.md]`.
//
// The order of reading: main.go, pages.go (what is worked on), plan.go (the
// operations and the proof that each was done), subject.go (who does them), then
// handrail.go, chrome.go, handler.go and peers.go (the subjects), way.go, cold.go,
// report.go.
//
// Promises: all subjects take turns within every round, on the same Chrome and
// the same pages; a time counts only if the page itself shows the effect, else
// the table says "no effect"; what is shown is the median of the rounds' medians;
// a missed target and a faster peer are shown as such.
//
// It must never import cmd, and nothing may import it.
package main
