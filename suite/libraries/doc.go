// Package libraries is the second half of the browser's capability suite: pages of real
// npm packages, each worked as an agent would, by the roles and names of the outline.
// The page's own state is the judge.
//
// The story in the order of reading: library.go (what a library is, and all of them),
// table.go (what is published of a run). Every other file holds the libraries of one
// kind; pages holds a document of each, and .jsx files beside those that need a bundle.
//
// Promises: an ID means the same for ever; the table holds only what was run, with the
// version that it was run on, and what failed stands in it.
//
// It judges from outside. So it must never import any package of this module but suite
// and suite/browser. The packages themselves are fetched by .ci/libraries, never by it.
package libraries
