// Package journal is the node's durable memory of calls: what it began, what it
// finished, and in which order, in one hash chain of its own.
//
// Promises: Started returns only when the record is on disk, so that "the journal has
// never heard of it" means that nothing ran; a call is started once, ever; Finished is
// with the kernel before the answer leaves, so that killing the node does not lose it;
// a torn tail after a power cut is recognised and cut off, and anything else that does
// not fit is an error. It holds digests under a key that is thrown away daily, never
// arguments or results; recent answers are kept in memory only.
//
// It must never import the link, the guard or the runner: they come to it.
package journal
