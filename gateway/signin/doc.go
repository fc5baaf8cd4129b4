// Package signin is how the gateway signs in at the authorization server of an MCP server, as
// OAuth 2.1 has it: a person says yes in their browser, the tokens lie sealed beside the other
// stored secrets, and the access token is kept fresh.
//
// The story in the order of reading: signin.go (beginning and finishing), discover.go (which
// authorization server it is), address.go (where the gateway may ask), token.go (tokens, their
// refresh and their end), keep.go (what is on record).
//
// Promises: a sign-in is finished by the session that began it, once, at the address made for
// that authorization server, and by nobody else (state, RFC 9207); each code is bound to a
// verifier (RFC 7636, S256) and each token asked for one resource (RFC 8707); the gateway asks
// public addresses and the hosts that the admin named, and follows no redirect; no token, code or
// verifier is in a log, an error, a packet or an answer.
//
// It must never import gateway/front or gateway/dispatch: who may begin is a surface's word, and
// where a token goes is a delivery like any other.
package signin
