// Package yaml is the one door through which YAML enters Handrail: files that people write,
// such as macros and the head of a skill. The result is canonical JSON, so that all that
// follows reads one form.
//
// Promises: one document, whose mappings have plain, distinct names; what a reader could take
// for something else than the writer is refused, not repaired: anchors and aliases (and with
// them documents that grow when they are read), tags, merge keys, numbers that JSON has not;
// bytes, depth and number of values are bounded.
//
// It must never import anything of this module but the capabilities root and canonical.
package yaml
