// Package health says how things stand.
//
// Promises: what could not be asked is named, and not left out; a script learns by the exit code
// whether a gateway runs.
//
// It must never import gateway/front: it is a client of the REST surface.
package health
