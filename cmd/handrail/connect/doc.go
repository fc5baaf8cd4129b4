// Package connect connects MCP clients of other makers to a gateway: it puts an entry into a
// client's own settings file, keeps the client's token, tests what it wrote the way the client
// will use it, says what is wrong later, and takes it all out again.
//
// Promises: each client has a token of its own, of role agent, which is shown on demand only;
// nothing is made before the client's file is known to be one that can be edited, since only an
// Editable makes; a token is revoked only after its successor is in place, or after the entry is
// gone; what is only shown changes nothing.
//
// It must never import the command line or the gateway's rooms but gateway/client and
// gateway/mcpclient: its caller finds the gateway and owns the data directory.
package connect
