// Package access manages who gets in: tokens, people and their sign-ins, and the secrets that calls
// may be handed.
//
// Promises: a token or a password is printed once, or to no terminal at all; a secret is read
// without being shown, and never from the command line; what a removal ends is said before.
//
// It must never import gateway/principal or gateway/secret: it is a client of the REST surface.
package access
