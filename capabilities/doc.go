// Package capabilities is the shared language of Handrail: the identifiers,
// codes, results and the handler contract that the node, the gateway and every
// capability speak.
//
// Promises: it does no I/O, keeps no state, and depends on the standard library
// only, so that everything may import it and it pulls nothing in.
//
// It must never import another package of this module: it is the root that the
// others stand on.
package capabilities
