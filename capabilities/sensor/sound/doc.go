// Package sound makes WAV and FLAC of samples.
//
// Promises: FLAC is lossless and within the format's streamable subset; both carry
// their length in their heads, so a cut file shows.
//
// It must never import anything of this project: it knows samples only.
package sound
