// Package metrics counts and measures, and serves what it has to Prometheus and its
// relatives, with the memory, descriptors and goroutines of the process. A small
// library counts, behind the few words that the gateway needs.
//
// Promises: counting takes no memory once a series exists, and never fails; nothing
// is in a registry that was not put there, so two gateways of one process do not meet.
// How many series there are is up to the caller: labels must come from closed lists,
// never from a caller's words.
//
// It must never import anything of this module: every room may count.
package metrics
