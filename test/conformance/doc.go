// Package conformance runs what others wrote against our surfaces: the official
// MCP conformance suite and the inspector, generators that read the API's OpenAPI
// document, and, where they are installed, the MCP clients themselves.
//
// Promises: the surface is the real one with real tokens; only the tools behind it are fixtures,
// those the suite calls. The tests of the suite for servers that are more than tools stand in
// testdata/baseline.yml, each with its reason, and an entry that passes fails the run. It needs
// Node.js 22 and npm packages, which .ci/conformance gets; without them the tests are skipped.
//
// It must never be imported: it is tests only.
package conformance
