// Package x11 is a desktop on an X server: its pixels, windows, pointer, keyboard
// and clipboard, in pure Go.
//
// conn.go holds the connection and hands out its events, wire.go is what stands between it and the
// socket; screen.go, windows.go, launch.go, input.go, person.go and clipboard.go each make one part
// of platform.Desktop. Input, Person and Clipboard have connections of their own, so that none
// waits for another. screen.go reads pixels by grab.go, into the memory of shared.go, which it
// lends; input.go types by typing.go, with keys.go, keymap.go, spare.go and settle.go; clipboard.go
// reads, serve.go is read from. instead.go says when another library may read the pixels.
//
// Promises: nothing waits for a server longer than its context allows; a server
// that ended is platform.ErrLost everywhere; what an extension is missing for
// works without it or says so with the fix; programs are started without a shell.
//
// It must never import a handler, nor anything of the other desktops.
package x11
