package suite

import (
	_ "embed" // trace.html
	"fmt"
	markup "html"
	"io"
	"strings"
)

// A trace is a page that loads nothing: its policy forbids it to. Its text comes from pages and
// tools, so there is one way to write a value, and that escapes it.

// form writes one trace.
type form struct{ b strings.Builder }

// put writes HTML with a text or number in the place of each %v, between tags or
// within the quotes of an attribute. The HTML is ours, the values never are.
func (f *form) put(form string, values ...any) {
	for i, v := range values {
		values[i] = escaped(fmt.Sprint(v))
	}
	fmt.Fprintf(&f.b, form, values...)
}

// escaped makes a text that has no meaning in HTML, and is valid in it.
func escaped(s string) string {
	return markup.EscapeString(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD"))
}

// Write writes the trace as HTML.
func (t *Trace) Write(w io.Writer) error {
	var f form
	f.trace(t)
	_, err := io.WriteString(w, f.b.String())
	return err
}

// traceHead is what every trace begins with.
//
//go:embed trace.html
var traceHead string

func (f *form) trace(t *Trace) {
	f.b.WriteString(traceHead)
	f.put("<title>%v: failed</title></head><body><main>\n", t.ID)
	f.put("<p class=\"about\">Capability suite, failed behaviour</p>\n<h1>%v</h1>\n", t.ID)
	f.put("<p class=\"about\"><b>%v</b>: %v</p>\n", t.Title, t.Proves)
	suite := "Chrome "
	if t.Suite != "browser" {
		suite = t.Suite + ": "
	}
	f.put("<p class=\"about\">%v%v on node %v, %v</p>\n", suite, t.Behind, t.Node, t.Began.UTC().Format("2006-01-02 15:04:05 MST"))
	f.put("<div class=\"error\">%v</div>\n<p class=\"about\">%v</p>\n", t.Error, t.Runs)

	f.put("\n<h2>The page when it failed</h2>\n")
	f.lane(t.Lane)
	f.put("<div class=\"card\">")
	f.image(t.Image, "the page when it failed", "no picture could be taken", "wide")
	f.details("Outline", t.Outline)
	f.put("</div>\n")

	f.put("\n<h2>Calls</h2>\n")
	for _, c := range t.Calls {
		f.call(c)
	}
	if len(t.Calls) == 0 {
		f.put("<p class=\"about\">none was made</p>\n")
	}

	f.put("\n<h2>Console</h2>\n<div class=\"card\">")
	f.list(t.Console)
	f.put("</div>\n<h2>Network</h2>\n<div class=\"card\">")
	f.list(t.Network)
	f.details("Requests that the suite's server got", t.Served)
	f.put("</div>\n</main></body></html>\n")
}

func (f *form) call(c CallView) {
	f.put("<div class=\"card\"><div class=\"row\"><h3>%v. %v</h3>", c.N, c.Tool)
	f.end(c.OK, c.End)
	f.put("<span class=\"time\">at %v, took %v</span></div>\n", c.At, c.Took)
	f.lane(c.Lane)
	f.put("<code>%v</code>\n", c.Args)
	switch {
	case c.Effect != "" && c.Evidence != "":
		f.put("<p class=\"about\">effect %v: %v</p>\n", c.Effect, c.Evidence)
	case c.Effect != "":
		f.put("<p class=\"about\">effect %v</p>\n", c.Effect)
	}
	if c.OK {
		f.put("<details><summary>Result</summary><pre>%v</pre></details>\n", c.Result)
	}
	switch {
	case len(c.Hops) > 0:
		if c.OK {
			f.put("<details>")
		} else {
			f.put("<details open>")
		}
		f.put("<summary>The twelve hops of call %v; times since it was sent</summary>\n<table>", c.ID)
		for _, h := range c.Hops {
			f.put(`<tr><td>%v</td><td class="name">%v</td><td class="when">%v</td><td>%v</td></tr>`, int(h.N), h.N, h.When, h.What)
		}
		f.put("</table></details>\n")
	case c.HopsMissing != "":
		f.put("<p class=\"about\">hops: %v</p>", c.HopsMissing)
	}
	if c.Framed {
		f.frames(c)
	}
	f.put("</div>\n")
}

// lane names a lane, where there are several.
func (f *form) lane(name string) {
	if name != "" {
		f.put("<p class=\"about\">lane %v</p>\n", name)
	}
}

func (f *form) frames(c CallView) {
	f.put("<div class=\"frames\"><figure><figcaption>before</figcaption>")
	f.image(c.Before, "before", "no page yet", "")
	f.put("</figure>\n<figure><figcaption>after</figcaption>")
	f.image(c.After, "after", "no picture could be taken", "")
	f.put("</figure></div>\n")
	if len(c.Difference) == 0 {
		word := "the outline is as it was"
		if c.After == "" && c.Before == "" {
			word = "no page was there"
		}
		f.put("<p class=\"about\">%v</p>", word)
		return
	}
	f.put(`<details open><summary>Difference of the outlines</summary><div class="diff mono">`)
	for _, d := range c.Difference {
		class := map[string]string{"+": "add", "-": "cut"}[d.Sign]
		f.put(`<div class="%v">%v %v</div>`, class, d.Sign, d.Text)
	}
	f.put("</div></details>\n")
}

func (f *form) end(ok bool, text string) {
	class := "bad"
	if ok {
		class = "ok"
	}
	f.put(`<span class="%v">%v</span>`, class, text)
}

func (f *form) image(p imageURL, alt, none, class string) {
	if p == "" {
		f.put(`<div class="none">%v</div>`, none)
		return
	}
	f.put(`<img class="%v" src="%v" alt="%v">`, class, p, alt)
}

func (f *form) details(summary, text string) {
	if text != "" {
		f.put("\n<details><summary>%v</summary><pre>%v</pre></details>", summary, text)
	}
}

func (f *form) list(lines []string) {
	if len(lines) == 0 {
		word := "none"
		if lines == nil { // it could not be asked for
			word = "nothing is known"
		}
		f.put(`<span class="about">%v</span>`, word)
		return
	}
	f.put(`<ul class="plain mono">`)
	for _, l := range lines {
		f.put("<li>%v</li>", l)
	}
	f.put("</ul>")
}
