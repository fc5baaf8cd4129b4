// Package tooldoc holds no code, only what makes docs/tools.md and keeps it true:
// the catalog gives names, fields and examples, lessons_test.go the few words
// that a catalog has no room for, and a real gateway, node and Chrome the answers
// and refusals.
//
// Promises: `go test ./test/tooldoc -update` writes the page; without it the page
// on disk is held against the catalog and, where there is a Chrome, against what
// the tools answer today.
//
// Nothing imports it.
package tooldoc
