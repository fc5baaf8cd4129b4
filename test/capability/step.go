package capability

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// The words that behaviours are written in. A step that does not find what it
// wants ends the behaviour by a failure, which run catches.
type step func(r *run)

type obj = map[string]any

// with makes arguments of names and values. Literal maps would be filled name by
// name in each of hundreds of places, which costs 60 KB of the binary.
func with(pairs ...any) obj {
	o := make(obj, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		o[pairs[i].(string)] = pairs[i+1]
	}
	return o
}

// failure is what a step panics with.
type failure struct {
	text string
	lane *lane // whose step it is
}

func (r *run) fail(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...), r.lane}) }

// patience bounds what a step waits for by itself; it is never what is measured.
const patience = 20 * time.Second

// call makes a call that has to succeed.
func call(tool string, args obj) step {
	return func(r *run) {
		if c := r.made(r.call(tool, args)); c.Code != "" {
			r.fail("%s %s was refused: %s: %s", tool, brief(c.Args), c.Code, c.Message)
		}
	}
}

// refused makes a call that has to fail with that code and say those words.
func refused(code capabilities.Code, tool string, args obj, words ...string) step {
	return func(r *run) {
		c := r.made(r.call(tool, args))
		if c.Code != code {
			r.fail("%s %s: got %s, want %s", tool, brief(c.Args), c.end(), code)
		}
		if c.Message == "" || c.Hint == "" {
			r.fail("%s: %s without a message or a hint", tool, code)
		}
		for _, w := range words {
			if !strings.Contains(c.Message+" "+c.Hint, w) {
				r.fail("%s: the refusal %q does not say %q", tool, c.Message, w)
			}
		}
	}
}

// either makes a call that may succeed or fail, and must end.
func either(tool string, args obj) step {
	return func(r *run) { r.made(r.call(tool, args)) }
}

// made makes c the last call, which the steps behind it look at.
func (r *run) made(c *Call) *Call {
	if !r.aside {
		r.last = c
	}
	return c
}

// end says how a call ended.
func (c *Call) end() string {
	if c.Code == "" {
		return "a result " + brief(c.Result)
	}
	return string(c.Code) + " (" + c.Message + ")"
}

// open goes to a page of the behaviour on origin A.
func open(path string) step { return call("navigate", with("url", "{A}"+path)) }

// until asks again until cond holds, and says what never came about.
func (r *run) until(what string, cond func() bool) {
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			r.fail("never came about: %s", what)
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

// meanwhile makes a call, and the steps while it runs; its end is judged by
// the first step.
func meanwhile(first step, steps ...step) step {
	return func(r *run) {
		aside := *r
		aside.aside = true
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			first(&aside)
		}()
		failed := func() (p any) {
			defer func() { p = recover() }()
			for _, s := range steps {
				s(r)
			}
			return nil
		}()
		if p := <-done; p != nil {
			panic(p)
		}
		if failed != nil {
			panic(failed)
		}
	}
}

// call makes one call with the placeholders of its arguments filled.
func (r *run) call(tool string, args obj) *Call {
	filled, _ := r.fillAll(args).(map[string]any)
	ctx, cancel := context.WithTimeout(r.ctx, 40*time.Second)
	defer cancel()
	c, err := r.lane.call(ctx, tool, filled)
	if err != nil {
		r.fail("%s %s: %v", tool, brief(filled), err)
	}
	r.note(c)
	return c
}

// fill puts the behaviour's addresses into a text.
func (r *run) fill(s string) string {
	return strings.NewReplacer("{A}", r.a, "{B}", r.b, "{none}", r.none, "{uploads}", r.w.s.o.Uploads).Replace(s)
}

func (r *run) fillAll(v any) any {
	switch x := v.(type) {
	case string:
		return r.fill(x)
	case at:
		return r.ref(x)
	case known:
		return r.refs[string(x)]
	case map[string]any:
		filled := make(map[string]any, len(x))
		for k, v := range x {
			filled[k] = r.fillAll(v)
		}
		return filled
	case []any:
		filled := make([]any, len(x))
		for i, v := range x {
			filled[i] = r.fillAll(v)
		}
		return filled
	}
	return v
}

func brief(v any) string {
	text, _ := json.Marshal(v)
	return clip(plain(text), 400)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// blocked makes a call that policy, the node or the browser has to refuse,
// whichever of them stands first.
func blocked(tool string, args obj) step {
	return func(r *run) {
		c := r.made(r.call(tool, args))
		switch c.Code {
		case capabilities.CodeURLBlocked, capabilities.CodeDeniedByPolicy, capabilities.CodeNodeDeniedByPolicy, capabilities.CodeDeniedByNode,
			capabilities.CodeAmbiguousNode, capabilities.CodeConsentUnavailable, capabilities.CodeInvalidArguments:
		default:
			r.fail("%s %s was not blocked: %s", tool, brief(c.Args), c.end())
		}
	}
}

// contextWithin is ctx with an end after so many milliseconds.
func contextWithin(ctx context.Context, ms int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
}

// majors gives the main version numbers in a text, as "Chrome/156" has them.
func majors(text string) []string {
	var all []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == '/' }) {
		if major, _, ok := strings.Cut(word, "."); ok && major != "" {
			all = append(all, "/"+major+".")
		}
	}
	return all
}
