// Package suite is what the capability suites share: `handrail suite` tries an
// installed node with them. A suite is a list of behaviours. Each is a situation,
// the calls an agent makes in it, and an effect that is checked where it happens,
// never in our own words alone. The calls go over MCP to any gateway, and so
// through gateway and node to the real thing.
//
// The story in the order of reading: behaviour.go (what a behaviour is, and which
// are chosen), client.go (MCP), runner.go (trying behaviours in lanes), step.go
// (the words that behaviours of every suite are written in; result.go has those
// that look), report.go, junit.go and trace.go (what is written about a run). The
// behaviours are in suite/browser, suite/libraries and suite/desktop, one folder each.
//
// Promises: an ID means the same for ever; a behaviour that was not run says why,
// none is left out silently; whatever shard a behaviour is in, it is in exactly one.
//
// It judges any gateway from outside, as an agent meets it. So it must never import
// any package of this module but capabilities.
package suite
