// Package netsim holds the tests in which a real gateway/nodes and real
// agent/links meet over loopback QUIC, with a UDP proxy between them that can cut
// the way: pairing, calls, cancellation, cuts, restarts, takeover, rotation and
// crowds.
//
// Promises: nothing is faked but the handler behind the link and the wire's
// temper; every wait is for an event.
//
// It must never be imported: it is tests only.
package netsim
