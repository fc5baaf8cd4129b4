// Package egress is the browser family's only way to the network: a proxy for each
// lane that Chrome uses for everything a page does (documents, frames, workers,
// sockets), and the rules by which it connects.
//
// proxy.go is the proxy, rules.go what it and navigate ask, domains.go the hosts that
// owner and grants name, address.go which addresses are the internet, gate.go the stop.
//
// Promises: what is not allowed by name is refused by address; a name is resolved once,
// every address of it is checked, and what is dialled is what was checked; loopback,
// private, link-local and metadata addresses are reached only where the owner named the
// origin; a call's grants narrow the way of its lane, also for tunnels that are open;
// connections of other local processes than the lane's Chrome are dropped, where the
// system tells whose they are.
//
// It must never import the browser handler or Chrome's protocol: it judges connections
// and knows nothing of pages.
package egress
