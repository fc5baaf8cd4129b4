// Package packet says what stands in packets: one type for each kind of body, which its
// writer and every reader of the ledger use. The bodies of calls come first.
//
// Promises: the JSON tags are the form; Encode writes exactly that form as canonical bytes,
// so what is hashed does not depend on how it was made. A body holds digests and the
// descriptor's evidence, never the payload (S0-31). Names are never changed and never
// reused: old ledgers are read with the same types.
//
// It must never import the ledger or anything that acts; it knows the shared vocabulary
// and the signals of gateway/drift alone.
package packet
