// Package knowledge keeps facts: what a worker was told or found out, with where it is from,
// how sure it is and until when it holds. It is the table knowledge_facts (S4-32).
//
// Promises: a fact belongs to one principal, and nobody else's are ever returned; of one
// subject and attribute a principal has one fact, and putting another replaces it; what has
// expired is not returned and goes with the next sweep; a put is durable when it returns, with
// a packet that names the fact and not its words; everything is bounded.
//
// It is plumbing: no tool writes to it, and it must never import a surface, the dispatcher or
// the registry. Workers put facts by it after a run, with the consent that their sensitivity
// needs.
package knowledge
