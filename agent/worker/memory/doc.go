// Package memory finds what a person asked their worker to remember or to forget, in the person's
// own words: a post-hook of a turn (S2-37, S2-38).
//
// Promises: only the person's messages are read for wishes, never what a model, a tool or a page
// said; words in quotation marks and code ask for nothing; a request that was withdrawn in the same
// message is none; it is a pure function of the conversation.
//
// It must never import another package of the project but capabilities and capabilities/fact, nor
// do I/O.
package memory
