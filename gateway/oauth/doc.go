// Package oauth lets in MCP clients that speak nothing but OAuth 2.1, such as claude.ai and
// ChatGPT: it is the authorization server of this one resource, the address of MCP.
//
// The story in the order of reading: oauth.go (what it is made of, and its addresses), metadata.go
// (how a client finds it: RFC 9728, RFC 8414), client.go and document.go (which client it is: by a
// document at its own address, or registered by itself, RFC 7591), ask.go (what a client asks of a
// person), consent.go (what the person says), token.go (codes and tokens), seal.go (what they are
// made of), revoke.go (RFC 7009), recorder.go (the steps of each attempt).
//
// Promises: a client is a token of role agent that a person made, with the families of tools that
// the person chose; a code goes to an address of the client's own, by exact match, once, and only
// with its verifier (RFC 7636, S256); each access token is for one address (RFC 8707) and is good
// nowhere else; a refresh token is good once, and one that comes twice ends the client; strangers
// make the gateway keep nothing and fetch nothing: a registration is its own sealed ID, and a
// client's document is fetched for a person who is signed in, from public addresses, in bounds.
//
// It must never import gateway/front or gateway/dispatch: the person's word comes by a surface, and
// what a client calls is judged like anybody's calls.
package oauth
