// Package script runs a caller's JavaScript in a process of its own, which can
// do nothing but compute and ask for browser tools over a pipe.
//
// The order of reading: host.go (this side: starts the guest, answers it, ends
// it), wire.go (what the two say to each other), guest.go (the child: an
// interpreter without modules, files, sockets or timers beyond its own), api.go and
// api.js (what a script can use, from this language and from its own).
//
// Promises: the guest is killed when its call ends, whatever it does; it gets no
// environment, no files and no network; what it says is decoded as hostile;
// memory, time, steps and texts are bounded.
//
// It must never import a package of this module but capabilities and platform:
// it knows no tool and no browser.
package script
