// Package outline is what a snapshot of a page is made of: rows of text in, text out. It cuts
// an outline to a size so that every part keeps its share (Fit), finds rows (Holding,
// Shallow), says how one outline became another (Delta), and remembers what a conversation was
// given, for the next delta and for refs whose document is gone (Memory).
//
// Promises: a page cannot forge a ref, since what it says stands in quotes before one or
// behind one; a delta applied to the old outline makes the new one; what is remembered is
// bounded.
//
// It must never import anything but the standard library and the vocabulary: it knows neither
// pages nor Chrome.
package outline
