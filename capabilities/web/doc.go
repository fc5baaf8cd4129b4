// Package web is the handler that fetches pages and searches for them: it asks for one address by
// HTTP, and returns the answer as text that a model can read, or asks the search server that the
// device's owner named.
//
// The story in the order of reading: handler.go (what is offered), fetch.go (one request, its
// redirects and its bounds), text.go (bytes to text, pages by the room markdown), search.go (pages
// by words).
//
// Promises: what is connected to is what was judged, by the owner's rules, the call's grants and
// its address; a redirect to another place is told and not followed; nothing is sent but the
// request for the address, without cookies or credentials; nothing of a page runs; an answer has a
// bound however it is packed, nested or drawn out; what comes back is marked as anybody's words.
//
// It must never import the browser handler, the agent, the gateway or OS code.
package web
