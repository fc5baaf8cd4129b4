// Package pgtest starts a PostgreSQL server of its own for a test: a fresh cluster on a
// socket, which goes with the test.
//
// Promises: nothing of the machine's own clusters is touched; the server keeps what it
// acknowledges, as one in service does.
//
// It must never be imported by anything but tests.
package pgtest
