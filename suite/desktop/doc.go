// Package desktop is the capability suite of the desktop: what a person's desktop
// must be able to do for an agent, as behaviours over MCP, through gateway and
// node. Its windows are its own: a page in a Chrome window, which tells this
// process by itself what came of mouse and keyboard, and a few editors and a
// terminal if they are installed, whose files this process reads. So an effect is
// never taken from the answer that claims it.
//
// The story in the order of reading: behaviour.go (all of them), suite.go (running
// them one after the other: there is one desktop), step.go (the words they are
// written in), page.go (the window that talks back), apps.go (other programs).
// Every other file holds families of behaviours.
//
// Promises: an ID means the same for ever; what cannot be tried here says what it
// needs and is not called passed; what a behaviour opened is closed behind it; the
// person's own windows are not touched.
//
// Tests and cmd/handrail may import it: `handrail suite desktop` is how an owner
// tries a node that is installed. So it must never import any package of this
// module but capabilities and test/suite.
package desktop
