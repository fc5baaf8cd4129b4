// Package notify shows notices of the session: on Linux and the other systems with
// D-Bus through org.freedesktop.Notifications, which hands them to assistive
// technology too. Elsewhere it says that there are none.
//
// Promises: every call is bounded by its context; what is shown is text, with
// whatever a server could take for markup escaped; a bus that ends is dialled again
// with the next notice.
//
// It must never import agent, gateway, handlers or capabilities, and never starts a
// bus: a session without one has nobody who looks.
package notify
