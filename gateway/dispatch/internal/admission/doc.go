// Package admission bounds the calls that run at once, in all and of each principal.
//
// Promises: one principal can never keep every other out; what is let in and what leaves
// are counted once each.
//
// It must never import anything of the gateway.
package admission
