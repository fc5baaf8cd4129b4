// Package sse reads server-sent events (WHATWG HTML) from any stream: those of a gateway, and those
// of a model's endpoint.
//
// Promises: an event is handed on only when the stream ended it; one that is larger than the caller
// reads is an error, and never a part of one; memory is bounded by that size.
//
// It must never import anything of this module: what an event means is for its reader.
package sse
