// Package egress is where what runs on a node may connect: the proxy of a lane's browser,
// the way out of one program or HTTP client, and the rules by which both connect.
//
// proxy.go is the browser's proxy, rules.go what it and navigate ask, domains.go the hosts
// that owner and grants name, address.go which addresses are the internet, gate.go the stop.
// way.go is the hosts that a provider or a workspace was given, door.go the proxy that a
// program behind walls is let to, transport.go an HTTP client's way with its credentials.
//
// Promises: what is not allowed by name is refused by address; a name is resolved once,
// every address of it is checked, and what is dialled is what was checked; loopback,
// private, link-local and metadata addresses are reached only where they were named; a
// call's grants narrow the way of its lane, also for tunnels that are open; connections of
// other local processes than the one that a proxy is for are dropped, where the system
// tells whose they are; a credential is put on requests to its own origin and no other.
//
// It must never import the browser handler, Chrome's protocol or what starts programs: it
// judges connections and knows nothing of pages and processes.
package egress
