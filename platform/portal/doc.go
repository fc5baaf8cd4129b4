// Package portal makes parts of a desktop by the portals of xdg-desktop-portal, for Wayland
// compositors (GNOME's, KDE's) that let no program near by a protocol: pixels by Screenshot, mouse
// and keyboard by RemoteDesktop, with the streams of ScreenCast as what places of the pointer are
// counted in. No video is read.
//
// portal.go holds the connection and its requests, screen.go and pixels.go the
// pixels, hands.go the input.
//
// Promises: the person is asked by the desktop itself, when a call first needs it
// and not before; what they refuse stays refused for a while instead of being asked
// again and again; a character that the person's keyboard does not have is refused,
// not lost; an image that the portal left in a file is removed.
//
// It must never import another part of a desktop, nor a handler: what it needs to
// know of displays and keys it is given.
package portal
