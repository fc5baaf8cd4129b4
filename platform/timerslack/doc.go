// Package timerslack lets the kernel wake a long-running process of ours late: its
// timers may fire up to Wide after their time. The Go runtime's own monitor looks
// every 70 µs while a call waits for the disk or the network; on a machine with few
// processors these wake-ups take a third of a lone call's processor time, and get
// into the way of whoever does the work. Waits of ours lose nothing by it: the
// runtime counts them in whole milliseconds.
//
// Promises: what such a process starts through Start has the slack that the process
// was given itself; where the system knows no slack or lets it not be changed, all
// goes on as before; whoever sets HANDRAIL_TIMER_SLACK decides alone.
//
// It must never import anything of this module. Only main of a program that serves
// calls may call Widen, as the first thing it does: the program begins anew.
package timerslack
