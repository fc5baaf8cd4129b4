// Package rules keeps the gateway's policy files: what is staged in the policy
// folder, what is in force, and everything that ever was, by its hash.
//
// The story in the order of reading: staged.go (the folder that people edit),
// rules.go (what is in force, and how another set comes into force), drafts.go
// (sets that were written at a surface), diff.go, replay.go (what a set would have
// decided on the recorded calls).
//
// Promises: what is in force is kept whole in the store and comes back after a
// restart, whatever lies in the folder; another set comes into force only by an
// activation that names the hash it means and the one it replaces, is checked
// against the set in force, and is recorded with its envelope in the same commit;
// a set that does not load changes nothing.
//
// It must never import a surface (gateway/front), the dispatcher or anything of
// the node plane.
package rules
