// Package record keeps what one tab told: the newest messages of its console and the newest
// requests of its network, each with a number of its own for the life of the tab.
//
// The story in the order of reading: console.go (messages as they come, and the list of them),
// say.go (a message in words), network.go (requests as Chrome tells of them), request.go (what is
// kept of one, and how it is told), address.go (addresses, and Chrome's errors in words), ring.go
// (the bounded list below both).
//
// Promises: each record is bounded in entries and in bytes; what is handed out is a copy, and the
// locks are not; headers that carry secrets are told without their values; no address that is told
// has a user name or a password in it.
//
// It must never import anything of the browser family but devtools and outline: it knows no tab,
// lane or call. A tab says whose request one is by a type of its own (Network's parameter).
package record
