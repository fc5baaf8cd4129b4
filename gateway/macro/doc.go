// Package macro reads, checks and carries out macros: fixed chains of tools, without a model
// (S3-14). A macro is data. It names tools, and what each gets: values, or references to what
// the caller gave and to what earlier steps returned. A step's output is a value wherever
// it goes and never read as a part of the macro.
//
// The story in the order of reading: macro.go (what a file says), value.go (values and
// references), test.go (conditions and expectations), check.go (what can be known to be wrong
// before anything runs), offer.go (the tool that a macro is), plan.go (its calls, as far as
// they are known beforehand), run.go (its calls, one after the other, and their undoing).
//
// Promises: every step is a call through the pipeline, which decides, asks and records it; a
// run makes at most 200 calls, keeps at most 16 MiB of what they return, and ends with its
// call's time; what fails is undone in reverse order as far as the file says how.
//
// It must never import a surface (gateway/front), the pipeline (gateway/dispatch) or the node
// plane: calls are made by what the registry hands it.
package macro
