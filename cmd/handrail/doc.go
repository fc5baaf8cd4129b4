// Command handrail is the one binary of the project: gateway, node, both at
// once, and the commands an operator or a script uses against a running gateway.
//
// Room: flags, wiring, and the commands. Its rooms below have what commands share. It is the only
// place that picks implementations for an operating system. The files up.go,
// gateway.go, node.go and wire*.go wire the long-running parts; every other
// command is a client of the gateway's REST surface.
//
// Promises: nothing is wired in init; every command prints plain words or, with
// --json, one JSON object a line; every failure ends with an exit code listed in
// docs/cli.md; ctrl-C ends it.
//
// It may import everything but test. Nothing may import it.
package main
