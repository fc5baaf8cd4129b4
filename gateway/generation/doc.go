// Package generation knows which of several copies of its site this gateway is. Each restore of a
// backup raises the generation; nodes remember the highest that was proven to them and tell it to
// every gateway, so that the older copy hears of the later one.
//
// Promises: a generation only grows, also past that of another restore of the same backup; that a
// later copy was heard of is durable before the gateway ends, and such a gateway does not start
// again.
//
// It must never import a surface or the node plane: it is what they ask.
package generation
