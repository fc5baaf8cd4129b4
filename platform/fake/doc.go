// Package fake is a desktop that exists only in memory, for the unit tests of
// handlers: two displays if asked, windows, a tree of elements, a mouse and a
// keyboard that act on them, a clipboard and a person who can be made to touch
// things. A script says what applications do; every operation can be made to
// fail or to hang.
//
// Promises: it behaves as the seam says (events, refs that go, conditions by
// errors.Is), so that a handler that works with it fails at nothing but the real
// system; nothing in it waits or depends on time; it is safe for concurrent use.
//
// It must never import anything of this module but the platform root.
package fake
