// Package markdown makes Markdown of an HTML document: text that a model reads for a fraction of
// what the document costs. The handlers of the web and of the browser share it.
//
// The story in the order of reading: markdown.go (a document to text, its main content, its links),
// frame.go (what frames a page without one), prune.go (what is left out of a document before that,
// and what bounds it).
//
// Promises: nothing of a document runs; text that no reader sees is left out; addresses are whole
// and of the web; time and size are bounded by the document's own, however it is nested or drawn
// out; it never fails and never panics.
//
// It must never import anything of this module but the capabilities root, and does no I/O.
package markdown
