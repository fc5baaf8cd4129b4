// Package input makes the events of a mouse and a keyboard on an X server, by XTEST.
//
// input.go presses keys, pointer.go moves, clicks and scrolls, typing.go types text. Characters
// that the keyboard lacks are made by spare keys that are lent a meaning (spare.go), once the
// program that gets them has come by its earlier presses (settle.go).
//
// Promises: it has a connection of its own, so that no large answer delays a click; text arrives
// as it was given, or the call says that this is not known; what was pressed is let go; lent keys
// are given back, those of a killed program by the next one.
//
// It must never import another part of the desktop.
package input
