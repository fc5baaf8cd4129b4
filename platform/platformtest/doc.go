// Package platformtest is the one suite that every implementation of
// platform.Desktop faces: what is seen is what a real window paints, what is moved
// is read back, what is typed arrives, windows and elements are those of a real
// program, and what is missing says so.
//
// Promises: it knows no system; each hands in an opener and an Oracle, a program
// that the suite can look at independently of the implementation. It waits for
// conditions, never for a time.
//
// Only tests import it. It must never import an implementation.
package platformtest
