package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg" // screenshots
	_ "image/png"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// The words that the behaviours of every suite are written in. A step that does not
// find what it wants ends the behaviour by Fail.

// Args are the arguments of a call.
type Args = map[string]any

// With makes arguments of names and values, on one line.
func With(pairs ...any) Args {
	o := make(Args, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		o[pairs[i].(string)] = pairs[i+1]
	}
	return o
}

// Case is one run of a behaviour, as the steps see it. R is the run's own type.
type Case[R any] interface {
	// Call makes one call with what its arguments stand for filled in. Where no
	// answer comes, the case fails.
	Call(tool string, args Args) *Call
	// Fill puts what is known into what stands for it, within any value.
	Fill(v any) any
	// Fail ends the behaviour. It does not return.
	Fail(format string, args ...any)
	// Last is the call that steps look at; Made makes it c.
	Last() *Call
	Made(c *Call) *Call
	// Beside is the same run for steps that go on beside its own, with a last call
	// of their own.
	Beside() R
}

// Step is one step of a behaviour.
type Step[R Case[R]] func(r R)

// Seen holds the call that steps look at. A suite's run embeds it.
type Seen struct{ last *Call }

// Last is the call that steps look at.
func (s *Seen) Last() *Call { return s.last }

// Made makes c the call that steps look at.
func (s *Seen) Made(c *Call) *Call {
	s.last = c
	return c
}

// Does makes a call that has to succeed.
func Does[R Case[R]](tool string, args Args) Step[R] {
	return func(r R) {
		if c := r.Made(r.Call(tool, args)); c.Code != "" {
			r.Fail("%s %s was refused: %s: %s", tool, Brief(c.Args), c.Code, c.Message)
		}
	}
}

// Refused makes a call that has to fail with that code and say those words.
func Refused[R Case[R]](code capabilities.Code, tool string, args Args, words ...string) Step[R] {
	return func(r R) { Refusal(r, r.Made(r.Call(tool, args)), code, words...) }
}

// Refusal wants c to have failed with that code and say those words.
func Refusal[R Case[R]](r R, c *Call, code capabilities.Code, words ...string) {
	if c.Code != code {
		r.Fail("%s %s: got %s, want %s", c.Tool, Brief(c.Args), c.End(), code)
	}
	if c.Message == "" || c.Hint == "" {
		r.Fail("%s: %s without a message or a hint", c.Tool, code)
	}
	for _, w := range words {
		if w = fill(r, w); !strings.Contains(c.Message+" "+c.Hint, w) {
			r.Fail("%s: the refusal %q does not say %q", c.Tool, c.Message+" "+c.Hint, w)
		}
	}
}

// Field wants a field of the last result (Pick has the form of the path). Of
// strings, want is a part.
func Field[R Case[R]](path string, want any) Step[R] {
	return func(r R) {
		got := Pick(r.Last().Result, path)
		text, isText := got.(string)
		part, partWanted := want.(string)
		if isText && partWanted {
			if part = fill(r, part); !strings.Contains(text, part) {
				r.Fail("%s of %s is %q, which does not hold %q", path, r.Last().Tool, capabilities.Brief(text, 1500), part)
			}
			return
		}
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(r.Fill(want))
		if !bytes.Equal(g, w) {
			r.Fail("%s of %s is %s, want %s", path, r.Last().Tool, capabilities.Brief(string(g), 600), w)
		}
	}
}

// Without wants text to be nowhere in the last answer.
func Without[R Case[R]](text string) Step[R] {
	return func(r R) {
		c := r.Last()
		if all, _ := json.Marshal([]any{c.Result, c.Evidence, c.Message, c.Hint}); strings.Contains(string(all), text) {
			r.Fail("%s tells %q: %s", c.Tool, text, capabilities.Brief(string(all), 600))
		}
	}
}

// Entry finds the entry of a list in the last result whose JSON holds all the
// words. Where there is none, it returns nil and false.
func Entry[R Case[R]](r R, path string, words ...string) (any, bool) {
	filled := make([]string, len(words))
	for i, w := range words {
		filled[i] = fill(r, w)
	}
	list, _ := Pick(r.Last().Result, path).([]any)
	i := slices.IndexFunc(list, func(x any) bool { return HoldsAll(JSON(x), filled) })
	if i < 0 {
		return nil, false
	}
	return list[i], true
}

// Among wants one entry of a list to hold all the words.
func Among[R Case[R]](path string, words ...string) Step[R] {
	return func(r R) {
		if _, ok := Entry(r, path, words...); !ok {
			r.Fail("no entry of %s has %q: %s", path, words, capabilities.Brief(JSON(Pick(r.Last().Result, path)), 2000))
		}
	}
}

// NotAmong wants no entry to hold them all.
func NotAmong[R Case[R]](path string, words ...string) Step[R] {
	return func(r R) {
		if x, ok := Entry(r, path, words...); ok {
			r.Fail("an entry of %s has %q: %s", path, words, Brief(x))
		}
	}
}

// Effect wants one of these as what the last call claims of its effect. Other steps check the real
// effect: this is for claims that have to be as modest as the truth.
func Effect[R Case[R]](want ...capabilities.Effect) Step[R] {
	return func(r R) {
		if c := r.Last(); !slices.Contains(want, c.Effect) {
			r.Fail("%s claims the effect %q (%s), want %q", c.Tool, c.Effect, c.Evidence, want)
		}
	}
}

// Check is any other look at the last call; it says what is wrong.
func Check[R Case[R]](look func(r R, c *Call) string) Step[R] {
	return func(r R) {
		if wrong := look(r, r.Last()); wrong != "" {
			r.Fail("%s: %s", r.Last().Tool, wrong)
		}
	}
}

// Picture decodes the image of the last call.
func Picture[R Case[R]](r R) image.Image {
	img, _, err := image.Decode(bytes.NewReader(r.Last().Blob))
	if err != nil {
		r.Fail("%s returned no readable image: %v", r.Last().Tool, err)
	}
	return img
}

// Meanwhile makes a call, and the steps while it runs. The first step judges its end;
// the steps that follow look at its last call.
func Meanwhile[R Case[R]](first Step[R], steps ...Step[R]) Step[R] {
	return func(r R) {
		beside := r.Beside()
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			first(beside)
		}()
		failed := func() (p any) {
			defer func() { p = recover() }()
			for _, s := range steps {
				s(r)
			}
			return nil
		}()
		ended := <-done
		r.Made(beside.Last())
		for _, p := range []any{ended, failed} {
			if p != nil {
				panic(p)
			}
		}
	}
}

// FillAll replaces values within v, maps and lists included, by what replace
// returns for those that are neither.
func FillAll(v any, replace func(v any) any) any {
	switch x := v.(type) {
	case map[string]any:
		filled := make(map[string]any, len(x))
		for k, v := range x {
			filled[k] = FillAll(v, replace)
		}
		return filled
	case []any:
		filled := make([]any, len(x))
		for i, v := range x {
			filled[i] = FillAll(v, replace)
		}
		return filled
	}
	return replace(v)
}

func fill[R Case[R]](r R, text string) string { return fmt.Sprint(r.Fill(text)) }

// Same wants a value of the page to be as it should, and says more where it is not.
func Same[R Case[R]](r R, what string, got, want any, more func() string) {
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(r.Fill(want))
	if bytes.Equal(g, w) {
		return
	}
	text := ""
	if more != nil {
		text = more()
	}
	r.Fail("in the page, %s is %s, want %s%s", capabilities.Brief(what, 200), capabilities.Brief(string(g), 400), w, text)
}
