// Package vp8 encodes what a screen shows as VP8 (RFC 6386), in Go alone. It is
// made for screens: most of a picture did not change, much of the rest moved as a
// whole, and letters stay sharp.
//
// Promises: what the encoder holds as its reconstruction is what every decoder
// shows, bit for bit; macroblocks that did not change cost next to nothing; what
// was sent coarsely is sent finely once there is time; Encode allocates nothing
// that the caller's buffer can hold; hostile pixels make large frames, never wrong
// ones.
//
// It does no I/O and must never import anything of this module: it knows pixels
// and bytes only.
package vp8
