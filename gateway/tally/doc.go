// Package tally knows how often each principal called each tool lately: what a rule that bounds
// calls looks at.
//
// Promises: it never counts too few, so that of any number of callers at once no more go on than a
// rule lets; a call leaves a count to the millisecond for the last minute, within a second for the
// last hour, and within a minute for the last day; what it keeps of a principal and tool is
// bounded, however often they call.
//
// It counts what it is told, and must import nothing of the gateway.
package tally
