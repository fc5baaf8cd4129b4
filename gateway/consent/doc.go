// Package consent is a person's word (hop 6 of docs/architecture.md): what waits to be
// approved, and the grants that answers leave behind.
//
// The story in the order of reading: grant.go (what a grant is and what it covers), scope.go (how
// far it reaches), consent.go (the live grants and their spending), approval.go (asking and
// waiting), answer.go (answering), close.go (what nobody wants an answer to any more), hands.go
// (where an agent holds mouse and keyboard), own.go (the owner of a device asks it for something
// themselves), elicit.go (what a provider's program asks a person), shown.go (what everybody may
// see of a question), told.go (what those who may answer are told besides).
//
// Promises: what a person said once is good for once, exactly those arguments, and
// for nothing that came later: another principal, tool, node, lane or policy
// snapshot asks anew; a use is spent in the commit that records the call, so that
// no number of callers gets one more; the first answer counts; silence denies;
// arguments are kept as keyed digests and as what the descriptor lets be recorded, and
// whole only in memory, while a question is open, for those who may answer it; a
// restart closes what waits, on record, and forgets what was good for one call.
//
// It must never import a surface (gateway/front), the dispatcher or anything of
// the node plane: they ask it, and who may answer is theirs to check with
// gateway/principal.
package consent
