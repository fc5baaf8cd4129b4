// Package satellites tries satellites against a whole gateway: by the public package, over the real
// bus, with servers and satellites that are killed, cut off, revoked or hostile.
//
// Promises: what really ran is the judge, never what a satellite says of itself; every process and
// goroutine that a test starts is gone at its end.
//
// Anything may not import it: it is for tests.
package satellites
