//go:build race

package e2e

// watched says that the race detector is in this binary, which also starts programs behind walls:
// it needs more than class t0 allows, so calls of that class are left to builds without it.
const watched = true
