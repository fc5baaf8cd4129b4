// Package mcpclient knows the MCP clients of other makers that people connect: how each
// names a server in its settings, and which ways to it each one takes. The command line writes
// such an entry into a client's file; the console shows it to be pasted.
//
// Promises: it is data and pure functions; it reads no file and makes no token.
//
// It must never import another package of this module.
package mcpclient
