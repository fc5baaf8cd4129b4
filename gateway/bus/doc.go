// Package bus is NATS as the gateway uses it: the server, the roster of satellites, their
// heartbeats, and the calls that go to them. A satellite is a provider of its own making, on a
// machine of somebody's (S3-08): here it stands where a node's session stands for devices.
//
// The story in the order of reading: bus.go (what there is, and when it starts), roster.go (who is
// in), join.go (how one gets in), server.go (the server in this process), strangers.go (who is
// connected there and proves no key), external.go (a server elsewhere), heartbeat.go (who is
// there), key.go (by what a heartbeat is known to be whose), snapshot.go (what routing sees, and
// who is less busy), call.go (a call and what became of it), far.go (satellites at other gateways
// of the site), plumbing.go (workers on other machines, which ask the domains of plumbing).
//
// Promises: nothing of NATS starts and no port opens before somebody is invited; a satellite
// publishes and hears its own subjects only, and so does a worker, which is known by the key of its
// connection and by nothing that it says; a heartbeat counts only if it has the satellite's
// signature or a MAC by a key that it agreed on, and only once; what arrives is bounded before
// it is kept; a call that may have arrived and has no answer is an unknown outcome, never a
// second try; who is revoked is cut off at once and stays out.
//
// It must never import a surface (gateway/front), the pipeline or a provider's record: the gateway
// hands in what it has to ask. No other package of the gateway may import NATS.
package bus
