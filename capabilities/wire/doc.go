// Package wire is what a node and a gateway say to each other: the frames of the
// control stream and of call streams, their layout, their bounds, and the close
// codes of a connection.
//
// Promises: every frame has a size cap that is checked before anything is allocated; a decoder
// returns a value or an error, never both; a value can be encoded again to the same value; it does
// no I/O beyond the reader or writer it is handed and knows no transport.
//
// It must never import a transport (QUIC lives in agent/link and gateway/nodes),
// policy or catalog: it carries their bytes without reading them.
package wire
