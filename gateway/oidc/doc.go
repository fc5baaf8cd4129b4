// Package oidc signs people in at an OpenID provider, such as that of their organisation: the
// provider says who they are and which groups they are in, and groups stand for roles.
//
// The story in the order of reading: oidc.go (what it is made of), begin.go (a person is sent to
// the provider), finish.go (they come back, with a code), claims.go (who it is, and what role),
// meet.go (where the provider's endpoints are, and how they are met).
//
// Promises: a person comes in with an ID token that the provider signed for this gateway, for this
// sign-in and for this browser, once (state, nonce, RFC 7636 S256, RFC 9207), and with a group that
// the admin named; strangers make the gateway keep nothing: what a sign-in needs lies sealed in
// their browser; the gateway asks the issuer and public addresses, follows no redirect, and puts no
// token, code, verifier or word of the provider into a log, an error or an answer.
//
// It must never import gateway/front or gateway/dispatch: what a person may do then is judged like
// anybody's, by gateway/principal.
package oidc
