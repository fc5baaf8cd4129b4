// Package knowledge keeps facts: what a worker was told or found out, with where it is from,
// how sure it is and until when it holds. It is the table knowledge_facts (S4-32).
//
// Promises: a fact belongs to one principal, and nobody else's are ever returned; of one
// subject and attribute a principal has one fact, and putting another replaces it; a fact is as
// private as its words say, whatever its sender said of it; a private one is kept only with a
// person's agreement, and a credential never; expired facts are not returned and go with the next
// sweep; a forgotten one is overwritten on the disk; a put is durable when it returns, with a
// packet that names the fact and none of its words; everything is bounded.
//
// It is plumbing: no tool writes to it, and it must never import a surface, the dispatcher or
// the registry. Workers put facts by it after a run, with the consent that their sensitivity
// needs.
package knowledge
