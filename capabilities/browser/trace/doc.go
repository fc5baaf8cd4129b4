// Package trace reads what Chrome recorded of a page's work (a trace of events, in its JSON format)
// and says where the time of the page's main threads went.
//
// The story in the order of reading: trace.go (events in, a summary out), kind.go (what kind of
// work an event is).
//
// Promises: of the events only names, times, and the scripts they name are kept; what is read is
// bounded, and a longer trace is summed up as far as it was read and says so; time that an event
// spends in another is counted once.
//
// It must never import anything of this module, and knows neither Chrome nor calls.
package trace
