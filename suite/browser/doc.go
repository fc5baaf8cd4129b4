// Package browser is the capability suite of the browser: what a browser must be able
// to do for an agent, as behaviours. Each is a page, the calls an agent makes on it,
// and an effect that is checked in the page or by the suite's own web server. A real
// Chrome carries the calls out.
//
// The story in the order of reading: behaviour.go (all behaviours), step.go (the words
// they are written in, beside those of suite; outline.go, expression.go, request.go and
// result.go have those that look), pages.go (the web server), suite.go (one run). Every
// other file holds one family of behaviours; pages holds those of their pages that are
// long.
//
// Promises: an ID means the same for ever; a behaviour whose tool is missing fails; what
// one behaviour did to a browser beyond its own page no other meets.
//
// It judges from outside. So it must never import any package of this module but
// capabilities and suite, nor anything that drives Chrome itself.
package browser
