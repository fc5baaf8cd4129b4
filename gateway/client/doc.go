// Package client is the gateway's API in Go: a typed method for what the command
// line and other people's programs do with a gateway.
//
// The story in the order of reading: client.go (requests, answers, errors),
// calls.go (tools and calls), people.go (approvals, grants, stop), manage.go (nodes,
// lanes, tokens, ledger, policy), events.go (what happens, as it happens).
//
// Promises: the token goes to the one address it was made for, never along a
// redirect and never unencrypted beyond loopback; it cannot be printed; answers are
// bounded; an error of the gateway is a *capabilities.Error with the gateway's own
// code; a gateway that cannot be reached is ErrUnreachable.
//
// It must never import anything of the gateway itself, nor a third-party module:
// who uses it gets the standard library and the shared vocabulary.
package client
