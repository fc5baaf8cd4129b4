// Package worker is the engine of an agent of one's own: a coded pipeline of four stages. The
// router says what a message wants, the gate which tools that may use, the executor lets a
// harness call them, and what comes after the turn is code again (S2-01).
//
// Promises: a harness sees and calls only what the gate allows, and the gateway decides about
// each call again; a turn has bounds for rounds, calls and time; the same call is not made twice
// in a row; each stage tells what it did by an event (S2-43), whose body has no value of a secret.
// A worker is a principal like any other: it has no way to a tool but the gateway's.
//
// It must never import the gateway, a handler, or the rest of the node agent; cmd hands it a
// Gateway.
package worker
