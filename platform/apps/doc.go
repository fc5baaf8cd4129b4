// Package apps finds the command of an application by its name, its program or its file, as the
// menus of Linux desktops do (Desktop Entry Specification).
//
// Promises: no shell reads any of it; a name that is unknown is an error that names those that come
// near; a file of the menus is bounded, and whatever is in it never panics.
//
// It must never import a room of platform: X11 and Wayland start applications alike.
package apps
