// Package rest is the gateway's JSON surface: everything the command line and
// the console do, under /v1/, with an OpenAPI document made from the same table
// that serves it, and the events as a stream that can be resumed.
//
// Promises: every route names the one action it takes and is refused without
// it; what a caller sends is strict JSON or refused by name; a failure is always
// {"error":{code, message, hint, retryable, details}} with the code's status; a
// call that reached the tool pipeline always answers 200 with its Result.
//
// It must never import the agent, a platform package or a handler, nor decide
// about a call, a node or a policy: it shows and passes on.
package rest
