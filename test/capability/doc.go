// Package capability is the capability suite: what a browser must be able to do
// for an agent, as behaviours. Each is a page, the calls an agent makes on it,
// and an effect that is checked in the page or by the suite's own web server,
// never in our own words alone. The calls go over MCP to any gateway, and so
// through gateway and node to a real Chrome.
//
// The story in the order of reading: behaviour.go (what a behaviour is, and all
// of them), step.go (the words they are written in; outline.go, expression.go,
// request.go and result.go have those that look), pages.go (the web server),
// client.go (MCP), runner.go (trying them in lanes, which test/capability/desktop
// does by the same), suite.go (one run of the browser's), report.go and trace.go
// (what is written about it). Every other file holds one family of behaviours.
//
// Promises: an ID means the same for ever; a behaviour whose tool is missing
// fails, none is left out silently; whatever shard a behaviour is in, it is in
// exactly one; what one behaviour did to a browser beyond its own page no other
// meets.
//
// Tests and cmd/handrail may import it: `handrail suite` is how an owner tries a
// node that is installed. So it must never import any package of this module but
// capabilities, nor anything that drives Chrome itself.
package capability
