// Package artifact is what node and gateway share about artifacts: the chunks they
// are cut into, the hashes those are known by, and the sealed form in which both
// sides keep them on their disks.
//
// Promises: no chunk is given out that its key, its place and its artifact do not
// authenticate; a whole is whole only when its SHA-256 is its ID; memory is bounded
// by chunks, never by an artifact.
//
// It does no I/O of its own (files come as io.ReaderAt and io.WriterAt), and it must
// never import agent, gateway, handlers or platform.
package artifact
