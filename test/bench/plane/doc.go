// Command plane measures what the tool plane costs: the selector over 1,000 tools, the list for a
// lane of 20 providers while one is dead, calls of imported tools, satellites and macros, a
// thousand satellites' heartbeats, and a start with 10,000 tools. It runs the benchmarks beside the
// code and makes one table.
//
// Promises: every figure stands beside its floor, measured in the same run. Of calls it takes
// medians, value and floor in turn; of what is short and runs by itself the quickest of many
// rounds, because the machine is shared and what others take of it only adds. rows is the one list
// of figures.
//
// It must never import anything of this module but test/bench/figures.
package main
