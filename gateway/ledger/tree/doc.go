// Package tree is the ledger as a transparency log: a Merkle tree over the hashes of its packets
// (RFC 6962 section 2.1), signed checkpoints of it (C2SP tlog-checkpoint) that foreign witnesses
// take, and proofs that one packet is in it (C2SP tlog-proof).
//
// Promises: a proof is judged by nothing but itself and a public key; a text that cannot be read is
// refused before anything of it is believed, and is bounded; the private key is only ever asked for
// a signature.
//
// It must never import a store, a surface or the room ledger: it is given hashes.
package tree
