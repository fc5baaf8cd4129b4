// Package route picks the node that carries out a call (S0-14 … S0-23): the one
// the caller named, the one attached to the lane, or the only eligible one.
//
// Promises: pure functions over a snapshot of the roster; the same roster leads to the same answer
// whatever its order; labels, platform, recency and trust are never looked at to choose, only to
// describe (S0-19); every refusal names its cause with its own code.
//
// It must never import a transport, the store or the policy library: whether
// policy denies a node is asked through a function of the caller.
package route
