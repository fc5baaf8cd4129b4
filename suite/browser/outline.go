package browser

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// at stands in arguments for the ref on the outline's line with all the words;
// the outline is read when the call is made.
type at []string

// known stands in arguments for a ref that keep has stored.
type known string

// keep stores the ref on the outline's line with all the words.
func keep(name string, words ...string) step {
	return func(r *run) { r.refs[name] = r.ref(words) }
}

// refOf returns the line with all the words, and its ref.
func refOf(outline string, words []string) (line, ref string) {
	for line := range strings.SplitSeq(outline, "\n") {
		if !suite.HoldsAll(line, words) {
			continue
		}
		if _, after, ok := strings.Cut(line, "[ref="); ok {
			ref, _, _ := strings.Cut(after, "]")
			return line, ref
		}
	}
	return "", ""
}

// framePatience is how often the page is read while a frame of it does not answer: a reading waits
// 1.5 s for a frame.
const framePatience = 12

// ref reads the page until a line with all the words has a ref: on a busy machine a frame of
// another origin takes its time to start, and says so until then.
func (r *run) ref(words []string) string {
	var outline string
	for range framePatience {
		outline = r.outline(nil)
		if _, ref := refOf(outline, words); ref != "" {
			return ref
		}
		if !strings.Contains(outline, "(this frame does not answer)") {
			break
		}
	}
	r.Fail("no ref on a line with %q in the outline:\n%s", words, outline)
	return ""
}

// outline reads the page.
func (r *run) outline(args obj) string {
	c := r.Call("snapshot", args)
	text, _ := c.Result["snapshot"].(string)
	if c.Code != "" {
		r.Fail("snapshot: %s", c.End())
	}
	return text
}

// line wants a line with all the words in the outline.
func line(words ...string) step { return lineOf(nil, words...) }

func lineOf(args obj, words ...string) step {
	return func(r *run) {
		outline := r.outline(args)
		for l := range strings.SplitSeq(outline, "\n") {
			if suite.HoldsAll(l, words) {
				return
			}
		}
		r.Fail("no line with %q in the outline:\n%s", words, outline)
	}
}

// noLine wants no line with all the words.
func noLine(words ...string) step { return noLineOf(nil, words...) }

func noLineOf(args obj, words ...string) step {
	return func(r *run) {
		outline := r.outline(args)
		for l := range strings.SplitSeq(outline, "\n") {
			if suite.HoldsAll(l, words) {
				r.Fail("the outline has the line %q", l)
			}
		}
	}
}

// keepFrom stores the ref on a line of an outline that the last result holds.
func keepFrom(path, name string, words ...string) step {
	return func(r *run) {
		outline, _ := suite.Pick(r.Last().Result, path).(string)
		_, ref := refOf(outline, words)
		if ref == "" {
			r.Fail("%s of %s has no ref on a line with %q: %s", path, r.Last().Tool, words, capabilities.Brief(outline, 600))
		}
		r.refs[name] = ref
	}
}

// sameRef wants the line with the words to have the ref that was kept.
func sameRef(name string, words ...string) step {
	return func(r *run) {
		if ref := r.ref(words); ref != r.refs[name] {
			r.Fail("the ref of %q was %s and is now %s", words, r.refs[name], ref)
		}
	}
}
