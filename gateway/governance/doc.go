// Package governance answers what admins are asked about the tools: which capabilities they
// declare and use, in which isolation they run, what drifted, who used privileged keys, and which
// denials people meet (S1-55 to S1-59). It is a read model: numbers by time, tool and key, folded
// from the ledger's packets.
//
// Promises: nothing is counted that no packet says; the same packets make the same numbers,
// whether they are folded as they come or all at once from nothing; the numbers and how far they
// go are durable together, so no packet is counted twice; each answer names the packet that it
// goes through. Packets that the ledger has pruned stay counted.
//
// It must never import a surface, the dispatcher or a transport, and it decides nothing.
package governance
