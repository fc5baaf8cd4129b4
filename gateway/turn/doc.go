// Package turn keeps what workers say of their turns: which intent, which tools, which calls, and
// what came after (S2-42, S2-43). It is the table turns.
//
// Promises: a turn is its worker's claim, recorded as such beside the calls that the gateway saw
// itself; it belongs to the principal whose token brought it; it is durable when Put returns, with
// a packet for each stage and one for the whole once it has ended; the same turn twice is one turn;
// one that runs is known from its beginning, and is lost once its worker said nothing for as long
// as its lease; rows go after their time, their packets stay.
//
// It must never import a surface, the dispatcher or the registry: nothing is decided by a claim.
package turn
