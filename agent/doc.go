// Package agent puts the node agent's rooms together: identity, link, guard,
// runner and journal around the handlers it is given.
//
// Promises: New starts nothing; Run returns after everything it started has
// ended, with the error that only a person can mend (revoked, denied, another
// site) or nil; handlers are closed with it.
//
// It must never import the gateway, a platform package or a concrete handler:
// cmd picks those.
package agent
