// Package pipeline is pipelines that stand in a file (S3-35): steps in their order, each of one of
// three kinds. A step calls a tool, lets the harness take one turn, or runs code of this package.
//
// Promises: what can be known to be wrong is found before anything runs, and named by its place; a
// file declares one intent, and no step reaches a tool that the gate does not open for it; what a
// step returned is a value wherever it goes, never a part of the file.
//
// It must never import the engine, a harness or a gateway: it reads, checks and computes.
package pipeline
