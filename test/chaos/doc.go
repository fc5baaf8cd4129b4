// Package chaos breaks a whole fleet by a schedule that one seed makes, and judges what is left by
// the ledger and by what really happened: gateways and nodes are processes of the built program on
// a PostgreSQL of their own, which are killed, stand still, are cut off and run out of disk while
// agents make calls, repeat them elsewhere and are asked about, and a person stops everything.
//
// Promises: the judge believes no answer of the program; each effect is counted by a file that the
// call itself wrote; the same seed makes the same schedule; each planted fault of Mutations is
// found.
//
// Nothing imports it.
package chaos
