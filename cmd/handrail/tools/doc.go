// Package tools shows the tools that a caller may use, and the instructions for them; it chooses
// one by words, and takes people's decisions about those of providers.
//
// Promises: what an approval would change is shown before it is asked for; a tool that does not
// exist is answered with the one that was likely meant.
//
// It must never import gateway/registry or gateway/provider: it is a client of the REST surface.
package tools
