package browser

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// The words that behaviours are written in: those of every suite, and the browser's own.
type (
	step = suite.Step[*run]
	obj  = suite.Args
)

var (
	with      = suite.With
	call      = suite.Does[*run]
	refused   = suite.Refused[*run]
	field     = suite.Field[*run]
	without   = suite.Without[*run]
	among     = suite.Among[*run]
	notAmong  = suite.NotAmong[*run]
	effect    = suite.Effect[*run]
	check     = suite.Check[*run]
	meanwhile = suite.Meanwhile[*run]
)

// failure is what a step panics with.
type failure struct {
	text string
	lane *suite.Lane // whose step it is
}

// Fail ends the behaviour.
func (r *run) Fail(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...), r.lane}) }

// patience bounds what a step waits for by itself; it is never what is measured.
const patience = 20 * time.Second

// either makes a call that may succeed or fail, and must end.
func either(tool string, args obj) step {
	return func(r *run) { r.Made(r.Call(tool, args)) }
}

// open goes to a page of the behaviour on origin A.
func open(path string) step { return call("navigate", with("url", "{A}"+path)) }

// until asks again until cond holds, and says what never came about.
func (r *run) until(what string, cond func() bool) {
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			r.Fail("never came about: %s", what)
		}
	}
}

// in makes steps in another lane, another agent's conversation.
func in(name string, steps ...step) step {
	return func(r *run) {
		other := r.other(name)
		for _, s := range steps {
			s(other)
		}
	}
}

// Beside is the same run for steps that go on beside its own.
func (r *run) Beside() *run {
	aside := *r
	aside.aside = true
	return &aside
}

// Call makes one call with the placeholders of its arguments filled.
func (r *run) Call(tool string, args obj) *suite.Call {
	filled, _ := r.Fill(args).(map[string]any)
	ctx, cancel := context.WithTimeout(r.ctx, 40*time.Second)
	defer cancel()
	c, err := r.lane.Call(ctx, tool, filled)
	if err != nil {
		r.Fail("%s %s: %v", tool, suite.Brief(filled), err)
	}
	r.note(c)
	return c
}

// Fill puts the behaviour's addresses into texts, and refs in the place of what
// stands for them.
func (r *run) Fill(v any) any {
	return suite.FillAll(v, func(v any) any {
		switch x := v.(type) {
		case string:
			return strings.NewReplacer(append([]string{"{A}", r.a, "{B}", r.b, "{none}", r.none, "{uploads}", r.w.s.o.Uploads},
				r.w.s.server.named...)...).Replace(x)
		case at:
			return r.ref(x)
		case known:
			return r.refs[string(x)]
		}
		return v
	})
}

// blocked makes a call that policy, the node or the browser has to refuse,
// whichever of them stands first.
func blocked(tool string, args obj) step {
	return func(r *run) {
		c := r.Made(r.Call(tool, args))
		switch c.Code {
		case capabilities.CodeURLBlocked, capabilities.CodeDeniedByPolicy, capabilities.CodeNodeDeniedByPolicy, capabilities.CodeDeniedByNode,
			capabilities.CodeAmbiguousNode, capabilities.CodeConsentUnavailable, capabilities.CodeInvalidArguments:
		default:
			r.Fail("%s %s was not blocked: %s", tool, suite.Brief(c.Args), c.End())
		}
	}
}

// contextWithin is ctx with an end after so many milliseconds.
func contextWithin(ctx context.Context, ms int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
}

// majors returns the main version numbers in a text, as "Chrome/156" has them.
func majors(text string) []string {
	var all []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == '/' }) {
		if major, _, ok := strings.Cut(word, "."); ok && major != "" {
			all = append(all, "/"+major+".")
		}
	}
	return all
}
