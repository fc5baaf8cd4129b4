// Package x11test is what the tests of the rooms beside it share: a bare X server, a connection,
// windows to look at.
//
// Promises: everything ends with its test.
//
// It must never be imported by anything but tests.
package x11test
