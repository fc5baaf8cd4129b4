// Package datadir knows the data directory: where gateway and node keep their state, and what its
// gateway says of itself while it runs, such as its addresses.
//
// Promises: a folder is made for its owner alone, and one that others can enter is refused;
// gateway.json is replaced in one step; a gateway is not started where one runs or where another
// program listens, and nothing is written before that is known.
//
// It must never import the gateway or open what a gateway keeps there. Of the node it reads the
// identity alone, for the address that its paste told.
package datadir
