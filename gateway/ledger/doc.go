// Package ledger is the gateway's memory of what was asked, decided and done:
// immutable packets in one hash chain (S4-21 … S4-27, S4-32), signed heads, sealed
// segments, retention that leaves proof, and a check that needs nothing but an
// export and a key.
//
// Promises: a packet that Append returned is durable; AppendIn joins whatever
// else its transaction writes, so that a call's request, decision and dispatch
// stand or fall together; nothing here changes or drops a packet except Prune,
// which says so in the chain; Verify finds any changed, dropped, moved or added
// byte, and a cut tail when it is given a later head.
//
// It must never import dispatch, front or any other room that writes packets, and
// it must never be handed payload: bodies hold digests and allowlisted evidence.
package ledger
