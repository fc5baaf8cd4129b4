// Package mcp is the gateway's MCP surface: streamable HTTP on /mcp and
// /mcp/l/{lane}, every revision from 2025-03-26 to 2026-07-28 on the same
// addresses.
//
// Promises: a client sees exactly the tools its token may use in its lane and is
// told when they change; what it calls goes to the dispatcher as it came, and
// what comes back is the dispatcher's result, with images as image content;
// cancelling, or going away, reaches the running tool; a session answers only to
// the token and lane that opened it, and ends with the token.
//
// It must never import the node plane, the agent or a handler, nor decide
// whether a call may run. With cmd's stdio bridge it is the only place that
// imports the MCP SDK.
package mcp
