// Package picture makes files of pixels: PNG and JPEG, of all, a part or a smaller
// copy of a frame.
//
// Promises: an agent's screenshot is mostly this work, so it is done on every
// processor there is, and an order faster than by the standard library; PNG keeps
// every pixel; nothing is kept beyond the call.
//
// It must never import anything of this module: it knows pixels only.
package picture
