// Package policy is the one place where calls are judged: the envelope that
// fixes what a call may touch, the Cedar decision (allow, ask or deny), and the
// isolation class its execution needs. The gateway and the node use the same
// code with their own policy files, and the stricter answer holds.
//
// Promises: pure, without I/O and without clocks; default deny, forbid wins, an erroring forbid
// denies; a tool that declares privileged keys is never plainly allowed (S1-22, S1-64); a class
// that is not given is a denial, never a fallback (S1-37); an envelope is content-addressed: the
// same input makes the same bytes (S1-10); an Engine never changes once loaded and is safe for
// concurrent use. Files that name an unknown tool, key, attribute or annotation do not load.
//
// A value of context is added in two places: contextFields in schema.go declares it, and context
// in decide.go fills it, for calls and for what surfaces let callers do (surface.go). The risk of
// a capability key is in keyRisks of derive.go; keys.go is about rules that take a key away.
//
// It must never import anything of this module but the capabilities root, the
// catalog and canonical. Cedar types stay inside it.
package policy
