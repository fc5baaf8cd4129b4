// Package console is the gateway's pages for people: nodes, calls, approvals, stop
// and the rest, made on the server, with small modules of our own that keep them
// live. Every page works without them. A page is a template in the folder pages, a type
// that it is filled with, and a line of Mount. A page of the menu has a line of places in
// layout.go, too.
//
// Promises: it shows what the REST surface answers to the visitor and changes what
// that surface lets the visitor change, and knows no other way to either; a control
// is there exactly if that surface would take it from the visitor; every string that
// a node, an agent, a page or a tool supplied is text and nothing else, with hidden
// and turning characters written out, by the one function that its place in a template
// wants; a page is sent whole or not at all; no page carries script or style inside, and
// none is shown in a frame; a session's secret is in a cookie that no script reads,
// and no token is ever part of an address.
//
// It must never import the dispatcher, the roster, the vault or the node plane.
package console
