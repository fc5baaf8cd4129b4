// Package signintest is the other side of a sign-in in tests: a real authorization server
// (zitadel/oidc) with what the MCP authorization specification adds to it, and an MCP server that
// takes the tokens that were asked for it, and no others.
//
// It must never be imported but by tests.
package signintest
