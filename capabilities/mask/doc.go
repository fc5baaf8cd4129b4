// Package mask takes personal data out of texts and JSON: what a call with the key
// data.access.pii_masked returns goes through it, on the node and again at the gateway (S1-17).
//
// Promises: email addresses, phone numbers, numbers of cards, accounts and persons are replaced by
// the name of their kind; a number counts as a card's, an account's or a person's only if its check
// digits are right; names are replaced only where a field is declared to hold one; masking what is
// masked changes nothing; the same text is masked alike in one piece and in many.
//
// It must never import anything but the standard library and capabilities, nor do I/O.
package mask
