// Package drift compares what was seen with what was granted, and says how bad a
// difference is (S1-43, S1-50): for what nodes see calls do, and for what pages show, an
// action or a key that a surface offered without a grant (S1-47).
//
// Promises: it is pure and bounded; it judges by what the caller of it says is in
// effect now and knows no rule of its own; a difference that names something
// privileged is critical (S1-50).
//
// It must never import a surface, the dispatcher or a transport.
package drift
