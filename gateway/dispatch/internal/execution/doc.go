// Package execution has the executions of calls: who waits for one, which one a request ID
// stands for, and which run now.
//
// Promises: an execution belongs to no caller and ends with the last one that waits for
// it; one request ID of a principal has one execution at a time; what is cancelled is
// told why.
//
// It must never import anything of the gateway: it knows no store, no ledger and no node.
package execution
