// Package fact says how private a fact is that an agent of a person's own would remember: the
// worker asks by it before anything is kept, and the gateway holds every fact to it, whatever a
// worker said.
//
// Promises: the same text is judged alike on both sides; a text of several languages is judged by
// all of them; one more sentence makes a text more private and never less; nothing of a text is
// kept.
//
// It must never import anything but capabilities, nor do I/O.
package fact
