// Package router says what a message wants: one of the intents, with how sure it is. It reads a
// prefix ("/search"), else weighs signals in the words, and may ask a model, which sees no tools
// (S2-01, S2-14). Without a model it works alone (S2-16).
//
// Promises: the same message gets the same answer from the signals; what is quoted, a name of a
// file or the address of a page is data and speaks for no intent by its words; a model's answer
// is one intent of the table or is not taken, and one that would widen what the signals see
// becomes a question to the person (S2-02). Everything is bounded: MaxText bytes are read.
//
// It must never import the gate, the engine, or anything that calls a tool.
package router
