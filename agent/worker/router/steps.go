package router

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/agent/worker/named"
)

// Bounds of a message that asks for several things. A longer one is mostly a text that was pasted,
// and is one request.
const (
	MaxSteps  = 4
	maxParted = 600 // bytes
)

// clear is how many points of signals make a later clause a request of its own.
const clear = 4

// step is what a message asks for at one place.
type step struct {
	from, to int         // where it stands in the message
	begun    intent.Name // what its first clause asks for …
	name     intent.Name // … and what serves all of it
	found    Found       // of the signals in the clause that named it
}

// Steps classifies a message that may ask for one thing after another. Each step has an intent of
// its own, so that the gate opens for it what that intent may use, and never what two of them may
// (S2-18). A step that is unclear, or that risks more than the words before it, makes a question of
// the whole: then there is one step, which asks, and nothing is done.
func (r *Router) Steps(ctx context.Context, message string) []Found {
	message = bounded(strings.TrimSpace(message))
	if _, ok := byPrefix(message); ok || len(message) > maxParted {
		return []Found{r.Route(ctx, message)}
	}
	clauses := named.Clauses(message)
	if len(clauses) < 2 {
		return []Found{r.Route(ctx, message)}
	}
	steps, ask := r.parted(message, clauses)
	switch {
	case ask != "":
		return []Found{{Route: intent.To(steps[0].name, Threshold-0.1), By: BySignals, Ask: ask, Text: message}}
	case len(steps) < 2 && steps[0].name == steps[0].begun:
		return []Found{r.Route(ctx, message)}
	}
	var all []Found
	for i, s := range steps {
		f := s.found
		f.Text = strings.TrimSpace(message[s.from:s.to])
		f = r.refine(ctx, f, []intent.Name{s.name})
		if f.Ask != "" {
			f.Text = message
			return []Found{f}
		}
		if len(steps) > 1 {
			f.Step, f.Of = i+1, len(steps)
		}
		all = append(all, f)
	}
	return all
}

// parted puts clauses together that one intent serves; ask is a question where they are not clear.
func (r *Router) parted(message string, clauses []named.Clause) (steps []step, ask string) {
	for i, c := range clauses {
		text := message[c.From:c.To]
		f, _ := r.bySignals(text)
		points := r.lexicon.weigh(words(text))[f.Intent]
		if i == 0 {
			steps = []step{{c.From, c.To, f.Intent, f.Intent, f}}
			if points == 0 {
				return steps, r.vague(message, clauses)
			}
			continue
		}
		last := &steps[len(steps)-1]
		want, known := meant(c, f, points, last.name)
		switch {
		case last.name == intent.MemoryWrite && !c.Begins && (!known || want == last.name || points <= clear):
			last.to = c.To // the fact goes on
		case last.name == intent.MemoryWrite && !c.Begins:
			return steps, fmt.Sprintf("Is all of it to be remembered? Or do you also want me to %s? Send that as a message of its own.", asks(want))
		case !known:
			return steps, fmt.Sprintf("I can %s, but nothing says how to do the rest: %s. Send the first alone, or say where the rest is done.",
				asks(last.name), strings.TrimSpace(text))
		case want == last.name || intent.Includes(last.name, want):
			last.to = c.To
		case intent.Includes(want, last.name):
			last.to = c.To
			last.name, last.found.Route = want, intent.To(want, max(f.Confidence, Threshold))
		default:
			if i, _ := intent.Get(want); i.Risk == intent.High || last.name == intent.ChatOnly || len(steps) == MaxSteps {
				return steps, fmt.Sprintf("You ask for several things: %s, and %s. Which first? Send each as a message of its own.",
					asks(last.name), asks(want))
			}
			f.Route = intent.To(want, max(f.Confidence, Threshold))
			steps = append(steps, step{c.From, c.To, want, want, f})
		}
	}
	return steps, ""
}

// vague asks about a message of which nothing says what its first request needs, while a later one
// says what it needs itself: as a whole it would be taken for that one alone.
func (r *Router) vague(message string, clauses []named.Clause) (ask string) {
	first := strings.TrimSpace(message[clauses[0].From:clauses[0].To])
	if clauses[0].Verb == "" || len(strings.Fields(first)) < 2 {
		return "" // "go and", "try and", or no request
	}
	for _, c := range clauses[1:] {
		f, _ := r.bySignals(message[c.From:c.To])
		if f.Ask == "" && f.Intent != intent.ChatOnly {
			return fmt.Sprintf("I can %s, but nothing says how to do what comes first: %s. Send that in other words.", asks(f.Intent), first)
		}
	}
	return ""
}

// meant returns the intent of a later clause; false: nothing says what it needs.
func meant(c named.Clause, f Found, points int, before intent.Name) (intent.Name, bool) {
	pages := before == intent.BrowseOnce || before == intent.BrowserTask
	screen := before == intent.ScreenObserve || before == intent.DesktopTask
	switch {
	case c.Verb == named.Acts && pages:
		return intent.BrowserTask, true
	case c.Verb == named.Acts && screen:
		return intent.DesktopTask, true
	case c.Points && c.Verb == named.Says:
		return before, true
	case points >= clear && f.Ask == "":
		return f.Intent, true
	case before == intent.ChatOnly:
		return before, true
	}
	switch c.Verb {
	case named.Says, named.Keeps:
		return before, true
	case named.Changes, named.Acts, named.Opens:
		return before, slices.Contains([]intent.Name{intent.FileTask, intent.SystemTask, intent.BrowserTask, intent.DesktopTask}, before)
	}
	return before, before == intent.BrowserTask || before == intent.DesktopTask
}

func asks(n intent.Name) string {
	i, _ := intent.Get(n)
	return i.Asks
}
