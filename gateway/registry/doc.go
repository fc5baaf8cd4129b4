// Package registry is the gateway's one list of tools (S4-01, S4-10): what is
// registered, found by ID, name, capability or tag, validated against, carried out
// here, and chosen from by words. Policy's vocabulary, REST, MCP lists, lanes and node
// lists are fed from it; the embedded catalog is no more than its first content.
//
//	draft     what holds now, as the next version, which nobody sees yet
//	settle    the catalog's rules for each tool that is new
//	free      no ID, wire name or capability of it is taken
//	accept    the policy in force can judge all that the draft holds
//	hold      the draft is the View; who waits for Changed is told
//	lookup    Get, List, ByCapability: by a View, without a lock
//	validate  a call's arguments, against the tool's schema
//	select    words → candidates → the tool that fits, recorded before it is shown
//
// Register, Hosted, Composed and Provide are the changes, and change is their one way.
//
// Promises: a tool is registered once and never replaced; every change is one new View
// with a higher version, which counts only once the policy in force can judge all it
// holds; every lookup is lock-free and safe for concurrent use; the selector is
// deterministic, asks no model, selects only what is registered and what its arguments
// fit, and shows nothing that was not recorded first.
//
// It must never decide, dispatch or do I/O: policy, dispatch and ledger do. It
// imports capabilities (root, catalog, policy for the derived risk) only, and it is the
// only room of the gateway that knows a catalog.
package registry
