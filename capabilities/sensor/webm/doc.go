// Package webm reads a WebM recording as Chrome's recorder makes it, without duration
// and index, tells what is in it, and writes it as a file that players can seek in. A
// Film is such a file made of frames of VP8, with chapters.
//
// Promises: nothing is allocated by a size that the bytes claim; a recording that ends
// in the middle of an element is an error; what Finish writes, Finish reads again with
// the same result; frames are copied, never changed.
//
// It must never import anything of this project: it knows bytes only.
package webm
