// Package template is the harness that needs no model: for each intent it knows the calls that a
// person most likely wants, and words for what they return (S2-16).
//
// Promises: it calls only what it is offered; it takes a command, an address or a path only as
// the person wrote it; what it cannot do it says, with what the person can write instead. Text
// that calls return is shown, cut to a bound, and never read for instructions.
//
// It must never import the engine's other rooms but worker and intent, nor anything that calls.
package template
