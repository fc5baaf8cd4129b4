// Package procguard starts children that can never outlive this process. It
// re-executes the running binary as a small guard, which holds one end of a pipe,
// starts the child, and at end of file on that pipe (this process ended, in
// whatever way) kills the child with everything it started and deletes its
// scratch folder. On Linux the guard is the reaper of all orphans below it, so
// that none can hide; on Windows they all sit in one job object.
//
// Promises: nothing survives, also after SIGKILL of this process; children run
// under another account where asked; scratch folders that a power cut left
// behind are swept at the next start.
//
// It must never import anything of this module but the platform root.
package procguard
