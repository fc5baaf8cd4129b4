// Package outlinetest reads what changed in an outline as its reader does, for the tests of those
// who write it.
//
// Promises: a delta that does not fit its outline is an error.
//
// It is never part of the binary, and must never import anything of this module.
package outlinetest
