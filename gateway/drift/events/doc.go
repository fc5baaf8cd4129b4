// Package events keeps the drift events of a gateway, what was done about them, and what still
// holds because of them: runners in quarantine, restricted tools, raised risk (S1-05, S1-50 to
// S1-54).
//
// Promises: an event and its responses are durable in the commit of the call's end; what holds
// comes from packets alone, so it can be folded from the ledger anew, and a restart changes
// nothing of it; a quarantine and a restriction end by a person's word and reason only; risk is
// raised and never lowered below what a tool's keys derive to.
//
// It must never import a surface, the dispatcher or a transport.
package events
