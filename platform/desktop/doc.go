// Package desktop opens the desktop of the session that this process belongs to:
// it knows which system is at hand, puts the parts together from the rooms beside
// it, opens anew what was lost, and says what is missing with its fix.
//
// Promises: nothing is opened before it is asked for; there is one desktop at a
// time; a part that cannot be had is named, and does not take the others with it;
// what was begun to be opened becomes open, whether who asked for it still waits or
// not; whether the session is locked is answered quickly, also by a bus that hangs.
//
// It must never import a handler, nor capabilities: cmd hands it to the handler.
package desktop
