// Package runner carries out admitted calls on the node (DESIGN section 4, hop
// 10): guard, journal, handler, observation, answer, in that order.
//
// Promises: a handler never starts before "started" is durable in the journal, or
// "held" is and "started" stands behind it; a held ticket asks, shows and runs nothing
// before the gateway's word; a call ID never starts twice, also across restarts; every
// ticket gets exactly one answer, but for a held one that was withdrawn; a deadline, a cancel, the stop switch and critical drift all end the
// handler's context; a panic in a handler costs its own call only.
//
// It must never import the gateway, a transport (agent/link) or a concrete
// handler: handlers and the journal come in as interfaces.
package runner
