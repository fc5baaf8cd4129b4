// Package terminal is the manner of every command: the flags that all have, what is printed for
// people and for programs, what is asked at a terminal, and how the program ends.
//
// Promises: text of others cannot drive the terminal, nor turn or hide what stands there; with
// --json an answer is one object a line; each error ends with the exit code that docs/cli.md lists
// for its code, and says what is wrong and what to do.
//
// It must never import cmd/handrail/remote or cmd/handrail/datadir: those call a gateway and
// read the data directory.
package terminal
