// Package tunnel carries the packets of QUIC in byte streams, one node to a stream, for
// networks that drop UDP: over TLS on TCP, and in a WebSocket.
//
// Promises: what crosses it is QUIC, with its own TLS and its own end of streams and
// calls, so that nothing which depends on them knows the way; a packet comes whole and in
// order or not at all; one stream that takes nothing slows no other down; a stream that
// ends is told at once; sizes are bounded before anything is read.
//
// It must never import QUIC, a transport of streams, or either side of the wire.
package tunnel
