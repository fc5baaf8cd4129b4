// Package task keeps calls that wait for a person although nobody holds the line: what a
// headless client asked for in the evening is carried out when somebody allows it in the
// morning, and the identical call takes the result.
//
// Promises: what was asked lies sealed with the outcomes, and a row knows nothing of it; a
// kept call goes through every hop anew, as if it were made now; it waits until its own
// commit and runs once from there, across crashes; what was dropped does not come back.
//
// It is a client of the pipeline, as gateway/live is, and the pipeline's hook for calls that
// nobody answered (dispatch.Deferred). It must never import a surface or a transport.
package task
