// Package e2e proves what the gateway and the node promise together when input is
// bad and things break: a whole site in one process for what can be told apart
// there, processes of their own that are killed where it cannot. One walk is by the
// command line alone, as a person has it: a desktop is lent, watched and taken back.
//
// Promises: every test ends with a look at the ledger (each call has its request,
// its decision and exactly one end, and the chain verifies offline); what ran is
// counted by the handlers, never taken from an answer.
//
// Nothing imports it.
package e2e
