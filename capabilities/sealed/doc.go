// Package sealed is how a secret travels from the gateway to one call on one node:
// encrypted to a key that the node makes for that call (HPKE, RFC 9180) and bound to
// the node, the decision and the grants.
//
// Promises: what was sealed for one call opens for no other; a key opens once; no
// error and nothing printed shows a value.
//
// It must import nothing but capabilities and the standard library.
package sealed
