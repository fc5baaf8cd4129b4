// Package outcome keeps bytes that must not last: recent results for callers who
// ask again, and the keys under which arguments and results are digested.
//
// Promises: everything is sealed (XChaCha20-Poly1305) and bound to its call, kind
// and expiry; nothing is given out after it expired; the whole stays within a
// quota by dropping first what would expire first; a digest in the ledger cannot
// be guessed without its call's key, and once that key has expired not with it
// either (a short typed PIN must not be guessable).
//
// It must never import the ledger, and the ledger never holds what is kept here.
package outcome
