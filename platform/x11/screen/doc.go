// Package screen reads the pixels and the layout of an X screen.
//
// screen.go follows displays and changes; grab.go reads pixels, into the memory of shared.go, which
// it lends; pixels.go converts what a server lays out in another way; instead.go says when another
// library may read the pixels.
//
// Promises: a picture that was lent stays as it is until it is given back, whatever becomes of the
// server; what an extension is missing for works without it or says so with the fix.
//
// It must never import another part of the desktop.
package screen
