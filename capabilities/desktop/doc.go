// Package desktop carries out the desktop family on a node: it looks at a person's desktop and
// works its windows, mouse, keyboard and clipboard through platform's interfaces.
//
// The story in the order of reading: handler.go (what is offered, and how a call
// gets its desktop), yield.go (one pair of hands for all lanes, and the person who
// comes first), frames.go (which pixels an image showed, and so what a point in it
// means), windows.go (which window is meant, and which are never touched), then the
// tools: screenshot.go, snapshot.go (with outline.go), mouse.go, keyboard.go,
// clipboard.go; readiness.go says what works here and what is missing. Elements are
// found and used by query.go, act.go and wait.go, whose refs are kept in refs.go.
//
// Promises: a point of an image means what the image showed, or the call is
// refused; the person's own mouse and keyboard win within 100 ms, and nothing
// stays pressed after a call that failed; windows of this program are never
// looked into, clicked or typed into; text that was typed or put on the clipboard
// is in no result, evidence, log or error; no result claims an effect that was not
// read back.
//
// It must never import an agent or gateway package, or a platform package but
// the root: cmd hands it the opener.
package desktop
