package capability

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg" // screenshots
	_ "image/png"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// The words that behaviours are written in. A step that does not find what it
// wants ends the behaviour by a failure, which run catches.
//
// What makes a step is never inlined: each of the hundreds of places that use it
// would get a copy of the whole step, 1.5 MB of a binary that has to stay small.
type step func(r *run)

type obj = map[string]any

// shared keeps a function from being copied into each of the places that call it.
//
//go:noinline
func shared[F any](f F) F { return f }

// with makes arguments of names and values. Literal maps would be filled name by
// name in each of hundreds of places, which costs 60 KB of the binary.
//
//go:noinline
func with(pairs ...any) obj {
	o := make(obj, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		o[pairs[i].(string)] = pairs[i+1]
	}
	return o
}

// failure is what a step panics with.
type failure struct{ text string }

//go:noinline
func (r *run) fail(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

// patience bounds what a step waits for by itself; it is never what is measured.
const patience = 20 * time.Second

// call makes a call that has to succeed.
//
//go:noinline
func call(tool string, args obj) step {
	return func(r *run) {
		if c := r.made(r.call(tool, args)); c.Code != "" {
			r.fail("%s %s was refused: %s: %s", tool, brief(c.Args), c.Code, c.Message)
		}
	}
}

// refused makes a call that has to fail with that code and say those words.
//
//go:noinline
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
//
//go:noinline
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
//
//go:noinline
func open(path string) step { return call("navigate", with("url", "{A}"+path)) }

// at stands in arguments for the ref on the outline's line with all the words;
// the outline is read when the call is made.
type at []string

// known stands in arguments for a ref that keep has stored.
type known string

// keep stores the ref on the outline's line with all the words.
//
//go:noinline
func keep(name string, words ...string) step {
	return func(r *run) { r.refs[name] = r.ref(words) }
}

// refOf gives the line with all the words, and its ref.
func refOf(outline string, words []string) (line, ref string) {
	for line := range strings.SplitSeq(outline, "\n") {
		if !containsAll(line, words) {
			continue
		}
		if _, after, ok := strings.Cut(line, "[ref="); ok {
			ref, _, _ := strings.Cut(after, "]")
			return line, ref
		}
	}
	return "", ""
}

func containsAll(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

func (r *run) ref(words []string) string {
	outline := r.outline(nil)
	if _, ref := refOf(outline, words); ref != "" {
		return ref
	}
	r.fail("no ref on a line with %q in the outline:\n%s", words, outline)
	return ""
}

// outline reads the page.
func (r *run) outline(args obj) string {
	c := r.call("snapshot", args)
	text, _ := c.Result["snapshot"].(string)
	if c.Code != "" {
		r.fail("snapshot: %s", c.end())
	}
	return text
}

// line wants a line with all the words in the outline.
//
//go:noinline
func line(words ...string) step { return lineOf(nil, words...) }

//go:noinline
func lineOf(args obj, words ...string) step {
	return func(r *run) {
		outline := r.outline(args)
		for l := range strings.SplitSeq(outline, "\n") {
			if containsAll(l, words) {
				return
			}
		}
		r.fail("no line with %q in the outline:\n%s", words, outline)
	}
}

// noLine wants no line with all the words.
//
//go:noinline
func noLine(words ...string) step { return noLineOf(nil, words...) }

//go:noinline
func noLineOf(args obj, words ...string) step {
	return func(r *run) {
		outline := r.outline(args)
		for l := range strings.SplitSeq(outline, "\n") {
			if containsAll(l, words) {
				r.fail("the outline has the line %q", l)
			}
		}
	}
}

// holds wants a value of an expression in the page, now.
//
//go:noinline
func holds(expression string, want any) step {
	return func(r *run) { r.compare(expression, r.eval(expression), want) }
}

// becomes wants it soon: for effects that the page itself puts off.
//
//go:noinline
func becomes(expression string, want any) step {
	return func(r *run) {
		wanted, _ := json.Marshal(want)
		wait := fmt.Sprintf(`new Promise(done => { const began = Date.now(), want = JSON.stringify(%s); (function look() {
			let v; try { v = (%s) } catch (e) { v = 'error: ' + e }
			if (JSON.stringify(v) === want || Date.now() - began > %d) done(v); else setTimeout(look, 10) })() })`, wanted, expression, patience.Milliseconds())
		began := time.Now()
		c := r.call("evaluate", with("expression", wait))
		for c.Code == "" && c.Evidence == pageLeft && time.Since(began) < patience { // and is asked on the page it left for
			c = r.call("evaluate", with("expression", wait))
		}
		r.compare(expression, r.valueOf(expression, c), want)
	}
}

// pageLeft is evaluate's word that the page left while the expression was awaited.
const pageLeft = "the page navigated before the expression gave a value"

func (r *run) eval(expression string) any {
	return r.valueOf(expression, r.call("evaluate", with("expression", expression)))
}

// valueOf gives what an evaluate came to.
func (r *run) valueOf(expression string, c *Call) any {
	if c.Code != "" {
		r.fail("evaluate %s: %s", clip(expression, 200), c.end())
	}
	return c.Result["result"]
}

func (r *run) compare(what string, got, want any) {
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if !bytes.Equal(g, w) {
		r.fail("in the page, %s is %s, want %s", clip(what, 200), clip(string(g), 400), w)
	}
}

// served wants the server to have been asked for a path by a request that holds
// the words in its origin, method, query or body.
//
//go:noinline
func served(path string, words ...string) step {
	return func(r *run) {
		deadline := time.After(patience)
		for {
			found, changed := r.visits.matching(path)
			for _, v := range found {
				if containsAll(v.Origin+" "+v.Method+" "+v.Query+" "+v.Body, words) {
					return
				}
			}
			select {
			case <-changed:
			case <-deadline:
				r.fail("the server was not asked for %q with %q; it was asked for %s", path, words, r.visits)
			case <-r.ctx.Done():
				r.fail("%v", r.ctx.Err())
			}
		}
	}
}

// times wants the server to have been asked for a path so often by now.
//
//go:noinline
func times(path string, n int) step {
	return func(r *run) {
		if found, _ := r.visits.matching(path); len(found) != n {
			r.fail("the server was asked for %q %d times, want %d", path, len(found), n)
		}
	}
}

// until asks again until cond holds, and says what never came about.
func (r *run) until(what string, cond func() bool) {
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			r.fail("never came about: %s", what)
		}
	}
}

// header wants the last request of a path to have had a header that holds want.
//
//go:noinline
func header(path, name, want string) step {
	return func(r *run) {
		found, _ := r.visits.matching(path)
		if len(found) == 0 {
			r.fail("the server was not asked for %q", path)
		}
		if got := found[len(found)-1].Header.Get(name); !strings.Contains(got, want) {
			r.fail("the request for %q had %s: %q, want %q", path, name, got, want)
		}
	}
}

// String lists what was asked for.
func (v *visits) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for _, x := range v.seen {
		all = append(all, strings.TrimSuffix(x.Origin+":/"+x.Path+"?"+x.Query, "?"))
	}
	return strings.Join(all, " ")
}

// field wants a field of the last result; the path goes through objects and
// lists, as in "tabs.0.url". Of strings, want is a part.
//
//go:noinline
func field(path string, want any) step {
	return func(r *run) {
		got := pick(r.last.Result, path)
		text, isText := got.(string)
		part, partWanted := want.(string)
		if isText && partWanted {
			if !strings.Contains(text, r.fill(part)) {
				r.fail("%s of %s is %q, which does not hold %q", path, r.last.Tool, clip(text, 600), r.fill(part))
			}
			return
		}
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		if !bytes.Equal(g, w) {
			r.fail("%s of %s is %s, want %s", path, r.last.Tool, clip(string(g), 600), w)
		}
	}
}

// without wants text to be nowhere in the last answer.
//
//go:noinline
func without(text string) step {
	return func(r *run) {
		c := r.last
		if all, _ := json.Marshal([]any{c.Result, c.Evidence, c.Message, c.Hint}); strings.Contains(string(all), text) {
			r.fail("%s tells %q: %s", c.Tool, text, clip(string(all), 600))
		}
	}
}

// pick follows a path through decoded JSON.
func pick(v any, path string) any {
	if path == "" {
		return v
	}
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			if name == "length" {
				v = len(x)
				break
			}
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// among wants one entry of a list in the last result to hold all the words in
// its JSON.
//
//go:noinline
func among(path string, words ...string) step {
	return func(r *run) {
		if !isAmong(r.last, path, words) {
			r.fail("no entry of %s has %q: %s", path, words, brief(pick(r.last.Result, path)))
		}
	}
}

func isAmong(c *Call, path string, words []string) bool {
	list, _ := pick(c.Result, path).([]any)
	for _, x := range list {
		if text, _ := json.Marshal(x); containsAll(plain(text), words) {
			return true
		}
	}
	return false
}

// notAmong wants no entry to hold them all.
//
//go:noinline
func notAmong(path string, words ...string) step {
	return func(r *run) {
		list, _ := pick(r.last.Result, path).([]any)
		for _, x := range list {
			if text, _ := json.Marshal(x); containsAll(plain(text), words) {
				r.fail("an entry of %s has %q: %s", path, words, text)
			}
		}
	}
}

// plain undoes the escapes that json.Marshal adds for HTML.
func plain(text []byte) string {
	return strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(string(text))
}

// effect wants what the last call claims of its effect. The page is checked by
// other steps: this is for claims that have to be as modest as the truth.
//
//go:noinline
func effect(want capabilities.Effect) step {
	return func(r *run) {
		if r.last.Effect != want {
			r.fail("%s claims the effect %q (%s), want %q", r.last.Tool, r.last.Effect, r.last.Evidence, want)
		}
	}
}

// in makes steps in another lane, another agent's conversation.
//
//go:noinline
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
//
//go:noinline
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

// picture wants an image as the last result and looks at it.
//
//go:noinline
func picture(look func(img image.Image) string) step {
	return func(r *run) {
		img, _, err := image.Decode(bytes.NewReader(r.last.Blob))
		if err != nil {
			r.fail("%s gave no readable image: %v", r.last.Tool, err)
		}
		if wrong := look(img); wrong != "" {
			r.fail("the image: %s", wrong)
		}
	}
}

// check is any other look at the last call; it says what is wrong.
//
//go:noinline
func check(look func(c *Call) string) step {
	return func(r *run) {
		if wrong := look(r.last); wrong != "" {
			r.fail("%s: %s", r.last.Tool, wrong)
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

// keepFrom stores the ref on a line of an outline that the last result holds.
//
//go:noinline
func keepFrom(path, name string, words ...string) step {
	return func(r *run) {
		outline, _ := pick(r.last.Result, path).(string)
		_, ref := refOf(outline, words)
		if ref == "" {
			r.fail("%s of %s has no ref on a line with %q: %s", path, r.last.Tool, words, clip(outline, 600))
		}
		r.refs[name] = ref
	}
}

// sameRef wants the line with the words to have the ref that was kept.
//
//go:noinline
func sameRef(name string, words ...string) step {
	return func(r *run) {
		if ref := r.ref(words); ref != r.refs[name] {
			r.fail("the ref of %q was %s and is now %s", words, r.refs[name], ref)
		}
	}
}

// blocked makes a call that policy, the node or the browser has to refuse,
// whichever of them stands first.
//
//go:noinline
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
