// Package address reads URLs, and it is the only place that does so where something is
// decided by one: the gateway's policy, the owner's rules and the browser's way out have to
// mean the same address by the same text, and it has to be the one that Chrome opens.
//
// Promises: a URL is read as the WHATWG URL standard says, not as RFC 3986 does; what a
// browser would refuse, or reads by rules of its own, is never taken for something else.
//
// It must never import more of this module than the vocabulary, and does no I/O: what a
// name resolves to is for others to find out.
package address
