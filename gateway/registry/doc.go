// Package registry is the gateway's one list of tools (S4-01, S4-10): what is
// registered, found by ID, name or tag, validated against, and chosen from by
// words.
//
// Promises: a tool is registered once and never replaced; every lookup is
// lock-free and safe for concurrent use; the selector is deterministic, asks no
// model, selects only what is registered and what its arguments fit, and shows
// nothing that was not recorded first.
//
// It must never decide, dispatch or do I/O: policy, dispatch and ledger do. It
// imports capabilities (root, catalog, policy for the derived risk) only.
package registry
