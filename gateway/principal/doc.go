// Package principal knows who may call: bearer tokens and the principals, roles
// and lanes they stand for, and the one function that says which role may do
// what; and the sessions of the console that a token opens.
//
// Promises: a token is shown once, at its creation, and only its SHA-256 is kept;
// role and lane come from the stored record and never from the caller; a token
// that is revoked or expired is refused on its very next use, and whoever holds a
// stream open for it is told; nobody makes a token that may do more than its
// maker.
//
// It must never import a surface (gateway/front), the dispatcher or anything of
// the node plane: nodes are identified by certificates, not by tokens.
package principal
