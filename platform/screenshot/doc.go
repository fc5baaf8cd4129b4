// Package screenshot reads a desktop's pixels by kbinani/screenshot, as a
// platform.Grabber: where our own grabber for an X server or for Windows cannot open, and
// beside it in tests, as what another program sees. grabber.go is all of it.
//
// Promises: an area is where the desktop's own layout says, or the Grabber does not open;
// nothing waits longer than its context allows, though the library knows none. It draws no
// pointer and tells of no damage, and each look makes a connection of its own.
//
// It must never import a desktop (platform/x11, platform/win32), the opener or a handler:
// it is given the layout.
package screenshot
