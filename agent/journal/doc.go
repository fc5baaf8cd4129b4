// Package journal is the node's durable memory of calls: what it began, what it
// finished, and in which order, in one hash chain of its own.
//
// Promises: Started and Finished return once the record is with the kernel, so that killing the
// node loses nothing; the disk has it within a second, and a call is started once, ever. "Never
// started" is said of a call only if nothing of it can have run: after a power cut a call that may
// have been among the lost records is "unknown", unless the gateway says that its ticket was sent
// later (Recall). Started waits for the disk where nothing tells one run of the system from the
// next. A torn tail after a power cut is recognised and cut off, and anything else that does
// not fit is an error. It holds digests under a key that is thrown away daily, never
// arguments or results; recent answers are kept in memory only.
//
// It must never import the link, the guard or the runner: they come to it.
package journal
