// Package spool keeps the artifacts of calls on the node until the gateway has
// them: sealed, below one folder, within a quota, and not for long.
//
// Promises: what was not committed is never given to anybody, also after a crash;
// nothing is on the disk in clear; the whole stays within its quota by refusing more,
// never by dropping what the gateway still has to fetch; names from outside never
// become names of files.
//
// It must never import QUIC, a handler or the gateway, and it decides nothing about who may have
// what: it sends to the one gateway that the node is paired with.
package spool
