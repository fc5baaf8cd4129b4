// Package turn is what a worker says of one of its turns, stage by stage (S2-42, S2-43): the words
// that a worker and its gateway share.
//
// Promises: a claim holds names, numbers, times and IDs, and no word of a person, a page, an
// argument or a result, for it is recorded where nothing can be forgotten (the calls, which it
// names by their IDs, have their own record); every list has a bound, and a stage has the part that
// belongs to it and no other.
//
// It must never import more of this module than the vocabulary, and does no I/O.
package turn
