// Package fronttest is what the tests of the surfaces share: a whole HTTP front
// on a real listener with real tokens, lanes and store, and a small dispatcher
// over the real catalog plus fixture tools, whose wire names are those the MCP
// conformance suite calls.
//
// Promises: nothing here is used outside tests; only the dispatcher is not the
// real one.
//
// It must never be imported by code that is not a test.
package fronttest
