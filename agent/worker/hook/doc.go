// Package hook runs commands of the person's own before and after a worker's calls, in the form
// that other agents' hooks have: JSON on standard input, an exit code, JSON on standard output.
//
// Promises: a hook only narrows. It may refuse a call, or keep a result from the harness; its
// consent is worth nothing, and it changes no argument. A hook that fails, hangs or says what
// cannot be read refuses. Its input, its answer and its time are bounded, and it is given no token
// and no key of this process.
//
// It must never import the worker, or anything that calls a tool.
package hook
