// Package api says what the gateway's REST API answers with: one type for each thing, which
// the server fills, and the client, the console and the command line read.
//
// Promises: types only, with the JSON that is on the wire in their tags; a field is never
// renamed, and one that goes leaves its name unused.
//
// It must never import anything but the standard library and the shared vocabulary: other
// people's programs link it.
package api
