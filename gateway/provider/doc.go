// Package provider keeps the gateway's record of providers: what each is, which node hosts it,
// what it says of its tools, and which of them a person approved. It holds no tool's code: a
// provider's calls go to its host like calls of any device.
//
// The story in the order of reading: provider.go (the records and how they come back after a
// restart), lifecycle.go (the states of a tool), manage.go (adding, looking again, removing),
// decide.go (approving), diff.go (what changed), settle.go (a decision becomes true
// everywhere), untold.go (hosts that have to hear of it), watch.go (hosts that come back or
// say that a tool changed), again.go (what other gateways of the site decided), satellite.go
// (providers that come by themselves), rule.go (the policy that an approval adds),
// through.go (what a person who is asked is told), look.go (names that look alike).
//
// Promises: a provider's tools are registered only once a person approved them, by the hash of
// what they looked at; what a provider changes is not callable before somebody looked at that;
// a decision holds at the gateway before its host is told, and whatever ends between, its host is
// told; every manifest that was approved stays readable by its hash; every change of a record is
// in the ledger, in the same commit.
//
// It must never import a surface (gateway/front) or the node plane (gateway/nodes): it asks the
// pipeline, like everybody who wants something done.
package provider
