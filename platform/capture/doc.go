// Package capture is the capture bus: the one owner of a screen's pixels. Everybody who looks at a
// display, for a screenshot, a wait or a live view, gets the same frames from it.
//
// Promises: what did not change is neither read nor made again; the pixels of a
// frame are never written to before all who were handed them released them; a frame
// shows the screen at some moment of the call that asked for it; memory is bounded
// and given back when nobody looks.
//
// It must never import the desktops it reads from: they are handed in as a
// platform.Grabber.
package capture
