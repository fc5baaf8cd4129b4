// Package conformance runs what others wrote against our MCP surface: the
// official conformance suite and the inspector.
//
// Promises: the surface is the real one with real tokens; only the tools behind
// it are fixtures, those the suite calls. What the suite expects of servers that
// are more than tools stands in testdata/baseline.yml, each with its reason, and
// an entry that passes fails the run. It needs Node.js 22 and two npm packages,
// which .ci/conformance gets; without them the tests are skipped.
//
// It must never be imported: it is tests only.
package conformance
