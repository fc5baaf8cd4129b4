// Command plane measures what the tool plane costs: the selector over 1,000 tools, the list for a
// lane of 20 providers while one is dead, a call of an imported tool beside its server called
// directly, and a start with 10,000 tools. It runs the benchmarks beside the code and makes one
// table.
//
// Promises: every figure stands beside its floor, measured in the same run; of what is short it
// takes the quickest of many rounds, because the machine is shared and what others take of it only
// adds. rows is the one list of figures: a satellite's call, heartbeats and macros are added there.
//
// It must never import anything of this module but test/bench/figures.
package main
