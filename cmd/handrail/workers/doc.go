// Package workers is the commands of an agent of one's own: one task, a conversation, a service
// that does jobs, and what it did and remembers.
//
// Promises: a worker reaches tools only as any agent does, by the gateway's public face; what a
// model, a page or an agent wrote cannot drive the terminal; a question is asked before its call.
//
// It must never import what acts in gateway: it wires agent/worker to the REST surface.
package workers
