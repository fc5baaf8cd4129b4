// Package provider is the commands about providers: programs, MCP servers, HTTP APIs and macros
// whose tools a gateway offers.
//
// Promises: nothing is approved but what was shown, whole and without control characters; a folder
// that is named is sent absolute; of several nodes that may host a provider none is chosen.
//
// It must never import gateway/provider or what runs providers on a node: it is a client of the
// REST surface. Of a document on this disk it sends only what makes tools.
package provider
