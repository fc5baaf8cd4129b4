// Package dispatch is the one pipeline that every call takes, and the only caller of
// transports. Its order is held by types: each phase takes the value of the phase before,
// and that value has one maker.
//
//	hop  2  resolve      Request   → resolved    the tool, its arguments, their digest
//	hop  3  place        resolved  → routed      the node
//	hop  4  decide       routed    → decided     the envelope, policy's decision
//	hop  5  deduplicate  decided   → execution   start, join or replay
//	hop  6  permit       decided   → permitted   a person's word, a free node
//	hop  7  commit       permitted → committed   request, decision and intent, durable
//	hop  8  send         committed → end         the only way to a transport
//	hop 11  record       end       → Result      how it ended, durable
//
// Hops 1 and 12 are the surface's, 9 and 10 the device's. [Dispatcher.Call] and what follows
// it in dispatch.go are the hops from top to bottom; each phase has a file of its name. A
// refusal at any hop is recorded by refuse, as far as the call came. A step of a running call
// is a call, too: step.go takes it through the same phases.
//
// Promises: nothing runs before its request, decision and intent are durable in one commit,
// because only that commit makes a committed and send takes nothing else; a request ID never
// runs twice; every call that enters leaves packets, and a repetition one that names the call
// it repeats; every open call ends as result, failed or unknown outcome, also across kill -9
// of either side; what is special about a tool is data in its descriptor.
//
// It must never import a surface (gateway/front), gateway/task, the agent, a platform package
// or a handler.
package dispatch
