// Package worker is the roster of workers on other machines: who was invited, who came, and who
// may call. Each has a token of its own, which it got by its own key and nobody was handed.
//
// The story in the order of reading: worker.go (the roster, and a person's decisions), join.go (how
// one comes in and gets its token).
//
// Promises: a paste is good for one worker and for its time; who joined waits for a person unless
// the paste said otherwise; a token is made for an approved worker alone, by its own key, and ends
// with its approval; no token's secret is kept here, and none is made anew after somebody revoked
// it.
//
// It must never import a surface (gateway/front), the pipeline or the queue of jobs: a worker that
// is in is a principal like any other.
package worker
