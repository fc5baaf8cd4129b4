// Package front is the gateway's HTTP door: it admits requests, and the surfaces
// (front/mcp, front/rest) behind it are projections of the same view model.
//
// Promises: no request is served before its Host and Origin were checked, and,
// but for the health check, before its bearer token was, on loopback too
// (loopback has no privilege); a body larger than 1 MiB is refused before it is
// read; failed authentication is limited per client address, whatever it failed
// on; connections without a token, and an agent's, however many, never take the room of
// people's; a token never appears in a log line, an error or a URL.
//
// It must never import the node plane's transports, the agent, a platform
// package or a handler, nor decide anything about a call: that is the
// dispatcher's.
package front
