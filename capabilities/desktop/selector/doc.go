// Package selector is the language by which calls name elements of a desktop, and what a selector
// means in one reading of it.
//
// selector.go is the form, parse.go reads it (the grammar stands there), print.go writes it;
// match.go is a reading prepared for matching, relate.go what lies beside what, nearest.go what
// comes closest where nothing matches, words.go the words of roles and states; titled.go asks
// windows alone.
//
// Promises: what is read prints as what reads the same; a wrong selector says where, and names the
// nearest words; windows of this program match nothing; matching is pure: it asks no desktop.
//
// It must never import a handler, nor anything that reads a desktop.
package selector
