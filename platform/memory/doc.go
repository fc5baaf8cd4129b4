// Package memory decides how much memory a long-running process of ours keeps
// for the garbage collector's comfort.
//
// Promises: a process with little live data is not collected every few
// megabytes, one with much does not hold as much garbage again, and one that has
// become calm gives back what it does not use, pages of the program among it;
// whoever sets GOGC decides alone.
//
// It must never import more than the standard library, and only cmd (and test
// programs that stand in for it) may import it: the setting is the process's.
package memory
