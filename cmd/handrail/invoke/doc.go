// Package invoke makes calls of tools for a person or a script: the arguments from the words of a
// command line, the wait for somebody's answer, the result with its files.
//
// Promises: a word becomes the JSON type that the tool's schema says; a file of a result is whole
// or not there, and its name is never taken from the other side's text; the exit code is that of
// how the call ended.
//
// It must never import what acts, as the gateway's rooms and the agent do: it is a client of the
// REST surface.
package invoke
