// Package windows lists, arranges and starts what stands on an X desktop, by the conventions of
// window managers (EWMH and ICCCM).
//
// windows.go lists, facts.go is what the server knows of a window, arrange.go moves, activates and
// closes, launch.go starts an application.
//
// Promises: a list costs a round trip or two, however long it is; without a window manager it does
// what one would; a window that is gone is platform.ErrGone; programs are started without a shell.
//
// It must never import another part of the desktop.
package windows
