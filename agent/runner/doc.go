// Package runner carries out tickets on the node. It is the device's last word in code: each
// phase takes the former's value, so no phase can be left out or come early.
//
//	Serve   a ticket arrives; from here on its call counts as running
//	admit   readiness, guard, catalog, schema, what is withheld from the caller    → admitted
//	place   its class's queue, until one of the class's places is free            → placed
//	start   the journal has the start on disk; then the ticket's lifetime          → started
//	run     the handler, within its deadline, observed                             → output
//	answer  size, schema, artifacts; the journal has the end; then the answer leaves
//
// Two wrappers stand round the handler: delivering gets the secret of a call that delivers
// one, after start and not before; withholding takes out of what the handler returned what a
// delivered secret keeps back. A step of a call takes the same way from admit on.
//
// Promises: only start makes a started, by the journal's durable record, and run takes
// nothing else; calls of one class wait and run apart from those of every other; a call
// ID never starts twice, also across restarts; every ticket gets exactly one answer; a
// deadline, a cancel, the stop switch and critical drift all end the handler's context; a
// panic in a handler costs its own call only.
//
// It must never import the gateway, a transport (agent/link) or a concrete
// handler: handlers and the journal come in as interfaces.
package runner
