// Package metrics counts and measures, and writes what it has in the text form
// that Prometheus and its relatives read (exposition format 0.0.4), with the memory,
// descriptors and goroutines of the process.
//
// Promises: counting takes no memory once a series exists, and never fails; a
// page that is read while others count is whole; names and labels come out
// escaped. How many series there are is up to who counts: labels must come from
// closed lists, never from a caller's words.
//
// It must never import anything of this module: every room may count.
package metrics
