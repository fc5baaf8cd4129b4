// Package person tells when a person uses the mouse or the keyboard of an X server, and which
// chords they press, by XInput 2.
//
// Promises: what programs do by XTEST counts for nothing; chords that answer a question count only
// from a keyboard of this device, and where the server cannot tell that, it says so; nothing is
// asked of the server while nobody watches.
//
// It must never import another part of the desktop: it judges input and makes none.
package person
