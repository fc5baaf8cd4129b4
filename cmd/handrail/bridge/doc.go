// Package bridge relays MCP between standard input and output and a gateway, for clients
// that start a program ('handrail mcp').
//
// Promises: messages pass as they are, so that every revision of the protocol passes, also
// newer ones than this program; each request is answered, by the gateway or here with the
// reason why it was not; one message is one line; a request is sent a second time only if the
// connection could not be made; a session that the gateway forgot is opened anew, once for
// each request; Run ends after all that it started.
//
// It must never import the command line or the gateway's rooms but gateway/client: its caller
// finds the gateway and the lane.
package bridge
