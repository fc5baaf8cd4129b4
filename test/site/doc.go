// Package site runs a whole site inside one test process: a real gateway and real
// node agents over real QUIC and HTTP on loopback, with a fixture capability
// family whose handlers do exactly what a test tells them.
//
// Promises: nothing in it stands in for a room of ours; everything it starts ends
// with the test.
//
// Only tests, benchmarks and test programs may import it.
package site
