package capability

import (
	"fmt"
	markup "html"
	"io"
	"strings"
)

// A trace is a page that loads nothing: its policy forbids it to. What it tells
// comes from pages and tools, so there is one way to write a value, and that
// escapes it.

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

// Write gives the trace as HTML.
func (t *Trace) Write(w io.Writer) error {
	var f form
	f.trace(t)
	_, err := io.WriteString(w, f.b.String())
	return err
}

const traceHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><style>
:root{--ink:#1d2733;--soft:#5b6673;--line:#d9dee4;--bad:#b3261e;--good:#1a7f4b;--back:#f6f7f9;--face:#fff;color-scheme:light}
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:72rem;margin:0 auto;padding:2rem 1.5rem 4rem}
h1{font-size:1.5rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2.5rem 0 .75rem}h3{font-size:.95rem;margin:0}
.about{color:var(--soft);margin:.25rem 0}.about b{color:var(--ink);font-weight:600}
.error{background:var(--face);border-left:4px solid var(--bad);padding:.9rem 1.1rem;margin:1.25rem 0;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.5 ui-monospace,monospace}
.card{background:var(--face);border:1px solid var(--line);border-radius:.5rem;padding:.9rem 1.1rem;margin:.6rem 0}
.row{display:flex;gap:.75rem;align-items:baseline;flex-wrap:wrap}.row .time{margin-left:auto;color:var(--soft);white-space:nowrap}
.ok{color:var(--good)}.bad{color:var(--bad)}code,pre,.mono{font:12.5px/1.5 ui-monospace,monospace}
code{overflow-wrap:anywhere;color:var(--soft)}pre{margin:.5rem 0 0;white-space:pre-wrap;overflow-wrap:anywhere}
summary{cursor:pointer;color:var(--soft);margin-top:.5rem}
table{border-collapse:collapse;width:100%;margin-top:.5rem;font-size:13px}td,th{text-align:left;padding:.2rem .75rem .2rem 0;border-top:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
td:first-child{color:var(--soft);width:2rem}td.when{white-space:nowrap;font-variant-numeric:tabular-nums;width:7rem}td.name{width:8rem}
.frames{display:grid;grid-template-columns:1fr 1fr;gap:1rem;margin-top:.75rem}figure{margin:0}figcaption{color:var(--soft);font-size:13px;margin-bottom:.25rem}
img{width:100%;border:1px solid var(--line);border-radius:.25rem;display:block;background:#fff}
img.wide{max-width:44rem}
.none{border:1px dashed var(--line);border-radius:.25rem;color:var(--soft);padding:2rem 1rem;text-align:center}
.diff div{white-space:pre-wrap;overflow-wrap:anywhere;padding:0 .5rem}.diff .add{background:#e2f4ea}.diff .cut{background:#fbe6e4}
.plain{margin:0;padding:0;list-style:none}.plain li{border-top:1px solid var(--line);padding:.2rem 0}
</style>`

func (f *form) trace(t *Trace) {
	f.b.WriteString(traceHead)
	f.put("<title>%v: failed</title></head><body><main>\n", t.ID)
	f.put("<p class=\"about\">Capability suite, failed behaviour</p>\n<h1>%v</h1>\n", t.ID)
	f.put("<p class=\"about\"><b>%v</b>: %v</p>\n", t.Title, t.Proves)
	suite := "Chrome "
	if t.Suite != "" {
		suite = t.Suite + ": "
	}
	f.put("<p class=\"about\">%v%v on node %v, %v</p>\n", suite, t.Chrome, t.Node, t.Began.UTC().Format("2006-01-02 15:04:05 MST"))
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
	f.details("What the suite's server was asked for", t.Served)
	f.put("</div>\n</main></body></html>\n")
}

func (f *form) call(c callView) {
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
			f.put(`<tr><td>%v</td><td class="name">%v</td><td class="when">%v</td><td>%v</td></tr>`, h.N, h.Name, h.When, h.What)
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

func (f *form) frames(c callView) {
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
