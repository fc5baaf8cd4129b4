// Package openapi makes tools of an OpenAPI document (3.0 or 3.1, JSON or YAML), a request of a
// call, and a result of an answer. The node that hosts the API sends the request; here nothing
// is sent.
//
// The story in the order of reading: read.go (bytes become a tree, within bounds), document.go
// (references inside it), operation.go (an operation becomes a tool), schema.go (what its
// arguments are), auth.go (where credentials go), reduce.go (a document without what no tool
// needs), request.go (arguments become a request), answer.go (an answer becomes a result).
//
// Promises: a document costs memory and time in proportion to its size, whatever its references
// and anchors do; nothing but the document itself is read; an operation that cannot be called
// as it is described is refused by name, and the others are not; the same document and record
// make the same manifest; no value of a caller moves a request to another path, host or header.
//
// It must never do I/O, and never import anything of this module but the capabilities.
package openapi
