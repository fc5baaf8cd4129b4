// Package remote is the gateway as the client commands meet it: how a command finds it, what it
// sends and gets, and which node, tool or grant a person meant by a few letters.
//
// Promises: the token of a data directory is never sent anywhere else; of several things that a
// word may mean none is chosen; answers are kept as they came, so that --json prints fields that
// this version does not know.
//
// It must never import what acts, as the gateway's rooms and the agent do: it is a client of the
// REST surface.
package remote
