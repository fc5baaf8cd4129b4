// Package notice is what the person at the device sees while a capability is in
// use: one sentence in words, in a file, by a command that reads it, and as a notice
// of the session (issue 5, "The device's last word").
//
// Promises: what a call uses is shown from before its handler runs until a few
// seconds after it ended, so that a short use is seen too; nothing is said by colour
// alone; showing never holds up a call; the status file holds no argument and no result
// of a call; a node that is gone does not look like one that is idle. A question that
// waits is a notice alone, and only what is shown is answered.
//
// It must never import handlers, the gateway or a platform implementation: it is
// handed a platform.Notifier, or none.
package notice
