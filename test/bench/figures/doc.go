// Package figures is what the measuring programs share: the median, what the
// machine is and how busy, what a process takes, and the place of a table in a
// document.
//
// Promises: it measures nothing by itself; what a system does not tell is zero or
// left out, never guessed.
//
// It must never import anything of this module; only programs below test/bench and test/libraries
// may import it.
package figures
