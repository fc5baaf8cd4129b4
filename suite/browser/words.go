package browser

import "github.com/handrail-dev/handrail/suite"

// The words that behaviours of another suite are written in, whose pages it has itself.
type (
	// Behaviour is a page, the calls an agent makes on it, and what has to come of them.
	Behaviour = behaviour
	// Step is one call, or one look at what came of it.
	Step = step
	// At stands in arguments for the ref on the outline's line with all the words.
	At = at
)

var (
	B       = b             // writes one behaviour down
	HTML    = html          // the page that is open when the steps begin
	Do      = call          // makes a call that has to succeed
	Refused = refused       // makes a call that has to fail with a code
	Holds   = holds         // wants a value of an expression in the page, now
	Becomes = becomes       // wants it soon
	Within  = becomesWithin // wants it within a time
	Line    = line          // wants a line with all the words in the outline
	NoLine  = noLine        // wants none
	Field   = field         // wants a field of the last result
	Served  = served        // wants the server to have been asked for a path
	// NeedsUploads marks what needs a folder whose files the node may upload, named {uploads}.
	NeedsUploads = needsUploads
)

// Case is one run, as a step of another suite sees it that is written out on the spot.
type Case interface {
	// Call makes one call with what its arguments stand for filled in.
	Call(tool string, args suite.Args) *suite.Call
	// Fill puts what is known into what stands for it, within any value.
	Fill(v any) any
	// Fail ends the behaviour. It does not return.
	Fail(format string, args ...any)
}

// By makes a step of a function.
func By(do func(c Case)) Step { return func(r *run) { do(r) } }

// Another makes a document of a behaviour at a path below its own address.
func Another(path, html string) page { return page{path, html} }
