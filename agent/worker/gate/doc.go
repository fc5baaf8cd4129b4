// Package gate says which tools a message may use: a pure function from a route to a decision,
// over a table that is data (S2-18, S2-24, S2-50). The table's rows are compiled to Cedar, and
// package policy judges them: there is one evaluator.
//
// Promises: no model is asked and nothing is remembered; what the table does not allow is
// forbidden, and rules that do not compile open nothing; a forbidden tool is taken out of a list
// before anybody sees it (S2-20). The gateway decides about each call again.
//
// It must never import the router, a harness, or anything that calls a tool or a model.
package gate
