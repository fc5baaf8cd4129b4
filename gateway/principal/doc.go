// Package principal knows who may call: bearer tokens and the principals, roles
// and lanes they stand for, and the one function that asks the policy who may do
// what; users with passwords and passkeys; and the sessions of the console that any
// of these open.
//
// Promises: a token is shown once, at its creation, and only its SHA-256 is kept;
// role and lane come from the stored record and never from the caller; a token
// that is revoked or expired is refused on its very next use, and whoever holds a
// stream open for it is told; nobody makes a token that may do more than its
// maker; of a password only its argon2id hash is kept, one is worked on at a time, and
// an unknown name costs what a known one does.
//
// It must never import a surface (gateway/front), the dispatcher or anything of
// the node plane: nodes are identified by certificates, not by tokens.
package principal
