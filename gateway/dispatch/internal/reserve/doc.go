// Package reserve has the nodes that people keep to themselves, and what is admitted to each node.
// Calls of others on a node that is kept wait; those that touch the person's screen, mouse or
// keyboard when it is taken are ended.
//
// Promises: a node has one owner at a time; between taking and giving back nothing of
// anybody else's is admitted there.
//
// It must never import a room of the gateway but the executions that it ends.
package reserve
