// Package arch holds no code, only tests of the tree itself: who may import
// whom, what every package and document must have, and that everything compiles
// for every supported system.
//
// Promises: each ban states its reason, so that who trips over one learns why; a
// rule is changed here together with docs/packages.md or not at all.
//
// Nothing may import it, and it imports no package of this module but the
// catalog, whose names the documents are held against.
package arch
