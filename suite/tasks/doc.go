// Package tasks is what browser tools are compared by: five tasks of several calls, and four
// pages that have not settled when an action ends. Each is worked as an agent would: it reads
// once, acts by refs, and reads again where something changed.
//
// The story in the order of reading: tasks.go (all of them, and how an agent works), tasks of a
// kind each in a file of its own; pages holds the documents.
//
// Promises: an ID means the same for ever; the page's own state is the judge; nothing here goes
// by words that only one tool's outline has.
//
// It judges from outside. So it must never import any package of this module but suite and
// suite/browser.
package tasks
