// Package dispatch is the one pipeline that every call takes (DESIGN section 4):
// resolve, route, decide, deduplicate, ask, commit, order, record. It is the only
// caller of transports.
//
// A step of a running call is a call, too: step.go takes it through the same hops.
//
// Promises: nothing runs before its request, decision and intent are durable in
// one commit; a request ID never runs twice; every open call ends as result,
// failed or unknown outcome, also across kill -9 of either side; what is special
// about a tool is data in its descriptor, never an "if" here.
//
// It must never import a surface (gateway/front), the agent, a platform package
// or a handler.
package dispatch
