// Package process is the life of Chrome on a node: how it is found, with which switches it is
// started, how a person's own is reached, how all of them are held by a stop, and how each ends.
//
// The story in the order of reading: sandbox.go (whether Chrome may run), flags.go (what it is
// started with), start.go (finding, starting, greeting), attach.go (one that a person runs),
// chrome.go (one that runs), set.go (all that run), pause.go (a stop), private.go (one for this
// program's own work), failure.go (the words for what went wrong).
//
// Promises: no Chrome outlives its Set; its only door is a pipe, and all its traffic goes by the
// proxy that it is given; it sees of this process's environment what flags.go lists; one that the
// person runs is never started, held or ended here, only left; constructors start nothing.
//
// It must never import the handler above it: a Chrome's Tenant hears what it says, and this
// package knows no tab, lane or call.
package process
