// Package nodestest is devices for the tests of rooms that talk to them: a roster and its
// journals, in memory.
//
// Promises: it does exactly what a test sets, and nothing by itself; all methods are safe for
// concurrent use.
//
// It must never import the node plane nor the dispatcher, whose own tests use it.
package nodestest
