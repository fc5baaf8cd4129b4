// Package wayland is a desktop on a Wayland compositor: its pixels, windows,
// pointer, keyboard and clipboard, in pure Go, over the protocols of wlroots
// (Sway, Wayfire, labwc, Hyprland and others) and a wire client of its own.
//
// conn.go holds the connection, message.go is what goes over it, protocol.go lists the requests and
// events that are used; outputs.go, screen.go, input.go, person.go, windows.go and clipboard.go
// each make one part of platform.Desktop. Pixels, hands (input and person) and the clipboard have
// connections of their own, so that none waits for another. keymap.go writes the keyboard that
// input.go types on, sway.go speaks with Sway about what no protocol tells.
//
// Promises: nothing waits for a compositor longer than its context allows; one that
// ended is platform.ErrLost everywhere; a protocol that is not offered is named, with
// the fix, and takes no other part with it; every character of a text has a key.
//
// It must never import a handler, nor anything of the other desktops.
package wayland
