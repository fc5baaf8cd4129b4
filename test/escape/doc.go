// Package escape lets hostile programs out of the walls of platform/sandbox, or tries to. Each
// does one thing that a tool must not be able to do. Whether it did is looked up from outside, in
// the file, process or listener that it aimed at, and never believed from its own words. The same
// programs run in bwrap and @anthropic-ai/sandbox-runtime, for the table in docs/isolation.md.
//
// Promises: the things that a program aims at are made for the test; nothing else is changed.
//
// It must never import anything but platform/sandbox and its launcher, and holds tests alone.
package escape
