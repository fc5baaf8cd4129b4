// Package api says what the gateway's REST API takes and answers with: one type for each thing,
// which server, client, console and command line share. Bodies of requests are named by what they
// ask for (MakeCall, GiveGrant), and stand with their subject.
//
// Promises: types only, with the JSON that is on the wire in their tags; a field is never
// renamed, and one that goes leaves its name unused.
//
// It must never import anything but the standard library and the shared vocabulary: other
// people's programs link it.
package api
