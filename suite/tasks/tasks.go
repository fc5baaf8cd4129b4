package tasks

import (
	"embed"
	"io/fs"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

//go:embed pages/*.html
var pages embed.FS

// Marker is what a page of Settled says once it has settled, and never before.
const Marker = "Settled at last"

// Behaviours returns the tasks and the pages that settle late, sorted by ID.
func Behaviours() []*browser.Behaviour {
	list := slices.Concat(errands(), settling())
	slices.SortFunc(list, func(a, b *browser.Behaviour) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// All describes each, sorted by ID.
func All() []*suite.Behaviour {
	var list []*suite.Behaviour
	for _, b := range Behaviours() {
		list = append(list, &b.Behaviour)
	}
	return list
}

// Settles reports whether a behaviour's page settles late.
func Settles(id string) bool { return strings.HasPrefix(id, "settled.") }

func page(name string) string {
	text, err := fs.ReadFile(pages, "pages/"+name+".html")
	if err != nil {
		panic(err) // a name that is written here and not there
	}
	return string(text)
}

// works makes a step of what an agent does.
func works(do func(a *agent)) browser.Step {
	return browser.By(func(c browser.Case) { do(&agent{c: c}) })
}

// agent knows what it has read.
type agent struct {
	c    browser.Case
	read []string // the newest last
}

// maxLooks bounds how often an agent reads a page that does not say what it waits for.
const maxLooks = 40

// looks reads the page.
func (a *agent) looks() { a.calls("snapshot", nil) }

// calls makes a call that has to succeed, and keeps what the answer shows of the page.
func (a *agent) calls(tool string, args suite.Args) *suite.Call {
	call := a.c.Call(tool, args)
	if call.Code != "" {
		a.c.Fail("%s %s: %s", tool, suite.Brief(args), call.End())
	}
	if shown, _ := call.Result["snapshot"].(string); shown != "" {
		a.read = append(a.read, shown)
	}
	return call
}

// acts does something after which the agent has to know what changed.
func (a *agent) acts(tool string, pairs ...any) {
	a.calls(tool, suite.With(append(pairs, "snapshot", "delta")...))
}

// ref returns the ref on the newest line that was read with all the words.
func (a *agent) ref(words ...string) string {
	for _, shown := range slices.Backward(a.read) {
		for line := range strings.SplitSeq(shown, "\n") {
			if _, after, ok := strings.Cut(line, "[ref="); ok && suite.HoldsAll(line, words) {
				ref, _, _ := strings.Cut(after, "]")
				return ref
			}
		}
	}
	a.c.Fail("no ref on a line with %q in what was read:\n%s", words, strings.Join(a.read, "\n---\n"))
	return ""
}

// field is one of a form by the words of its line, and its value.
func (a *agent) field(value string, words ...string) suite.Args {
	return suite.With("ref", a.ref(words...), "value", value)
}

// sees reads the page until what was read last says the words.
func (a *agent) sees(words string) {
	for range maxLooks {
		if len(a.read) > 0 && strings.Contains(a.read[len(a.read)-1], words) {
			return
		}
		a.looks()
	}
	a.c.Fail("no line with %q in the outline:\n%s", words, a.read[len(a.read)-1])
}
