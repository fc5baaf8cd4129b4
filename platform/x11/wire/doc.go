// Package wire is a connection to an X server: requests, their answers, events, extensions.
//
// conn.go dials, waits for answers and hands out events; wire.go stands between it and the socket;
// auth.go finds the server, asks whose it is and reads the cookie; raw.go makes requests that xgb
// does not have, devices.go reads properties of input devices by them; fd_linux.go sends a
// descriptor along with a request.
//
// Promises: nothing waits for a server longer than its context allows; a server that ended is
// platform.ErrLost everywhere; a server of another account hears nothing, least of all the cookie;
// what a server says is bounded and never panics.
//
// It must never import another room of the desktop: all of them are made of it.
package wire
