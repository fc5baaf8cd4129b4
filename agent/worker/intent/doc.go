// Package intent is what a person can want of a worker, as data: the names (S2-04), what each
// needs of the world, how much it can harm, and the words that a person may begin with to name
// one (S2-14).
//
// Promises: All is in one fixed order; a name is looked up, never guessed; Route's JSON is the
// RouterOutput of rule S2-03. To add an intent, add a row to the table, a row to the gate's, and
// lines for it to the router's signals; tests name what is missing.
//
// It must never import the router, the gate or anything that calls a model.
package intent
