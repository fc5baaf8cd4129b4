// Package keyboard is what the keys of an X server mean: names, keysyms, the map of which key
// makes what, and the requests of XKEYBOARD that read and change that map.
//
// keys.go turns names and characters into keysyms and back, with the old ones of keysyms.go;
// keymap.go reads a map and finds how a character is made; xkb.go asks the server.
//
// Promises: a map is read whole or refused, whatever the bytes; nothing here presses a key.
//
// It must never import a room of platform but platform/x11/wire.
package keyboard
