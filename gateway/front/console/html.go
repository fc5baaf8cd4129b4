package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
)

// html is markup. Only the functions of this file make it, so that a string from
// elsewhere gets into a page as text or as the value of an attribute, never as
// markup.
type html struct{ s string }

// attrs are names and values in turn.
type attrs []string

// el returns an element. Its name and the names of its attributes are written in this
// package; values are escaped.
func el(name string, a attrs, kids ...html) html {
	var b strings.Builder
	open(&b, name, a)
	for _, k := range kids {
		b.WriteString(k.s)
	}
	b.WriteString("</")
	b.WriteString(name)
	b.WriteByte('>')
	return html{b.String()}
}

// void returns an element that has no content.
func void(name string, a attrs) html {
	var b strings.Builder
	open(&b, name, a)
	return html{b.String()}
}

func open(b *strings.Builder, name string, a attrs) {
	b.WriteByte('<')
	b.WriteString(name)
	for i := 0; i+1 < len(a); i += 2 {
		key, value := a[i], a[i+1]
		switch {
		case strings.HasPrefix(key, "on") || key == "style" || key == "srcdoc":
			continue // script and style inside a page do not exist here
		case key == "href" || key == "src" || key == "action" || key == "formaction":
			if !ownAddress(value) {
				value = "#"
			}
		}
		b.WriteByte(' ')
		b.WriteString(key)
		b.WriteString(`="`)
		escape(b, value, true)
		b.WriteByte('"')
	}
	b.WriteByte('>')
}

// ownAddress reports whether an address stays within the console. Nobody guesses here how a browser
// reads a backslash or a tab in an address.
func ownAddress(s string) bool {
	if strings.ContainsFunc(s, func(r rune) bool { return r == '\\' || r < ' ' }) {
		return false
	}
	return strings.HasPrefix(s, "/console/") || strings.HasPrefix(s, "#") || strings.HasPrefix(s, "?")
}

// text returns a string as text on one line: characters that are not seen, or that
// turn what follows them, are written out.
func text(s string) html {
	var b strings.Builder
	escape(&b, s, false)
	return html{b.String()}
}

// textf is text of a format.
func textf(format string, args ...any) html { return text(fmt.Sprintf(format, args...)) }

// lines returns a string as text that keeps its newlines and tabs; for pre.
func lines(s string) html {
	var b strings.Builder
	for i, part := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, piece := range strings.Split(strings.TrimSuffix(part, "\r"), "\t") {
			if j > 0 {
				b.WriteByte('\t')
			}
			escape(&b, piece, false)
		}
	}
	return html{b.String()}
}

// kept returns a string as the content of a textarea, which comes back unchanged.
func kept(s string) html {
	var b strings.Builder
	b.WriteByte('\n') // browsers drop the first one
	escape(&b, s, true)
	return html{b.String()}
}

// escape writes s so that HTML reads it as itself. In attributes whatever is no text
// is left as it is but for what would end them: a value has to come back unchanged.
func escape(b *strings.Builder, s string, attribute bool) {
	for i, r := range s {
		switch r {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '"':
			b.WriteString("&#34;")
		case '\'':
			b.WriteString("&#39;")
		case '`':
			b.WriteString("&#96;")
		case 0:
			b.WriteString(`\u{0}`)
		case '\r', '\n':
			if attribute {
				fmt.Fprintf(b, "&#%d;", r)
			} else {
				b.WriteByte(' ')
			}
		case utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				fmt.Fprintf(b, `\x%02x`, s[i])
			} else {
				b.WriteRune(r)
			}
		default:
			if !attribute && capabilities.Hidden(r) {
				fmt.Fprintf(b, `\u{%x}`, r)
			} else {
				b.WriteRune(r)
			}
		}
	}
}

// group puts pieces one after another.
func group(kids ...html) html {
	var b strings.Builder
	for _, k := range kids {
		b.WriteString(k.s)
	}
	return html{b.String()}
}

// when returns h if it holds, else nothing.
func when(holds bool, h html) html {
	if holds {
		return h
	}
	return html{}
}

// each makes one piece of each item.
func each[T any](items []T, piece func(T) html) html {
	all := make([]html, len(items))
	for i, item := range items {
		all[i] = piece(item)
	}
	return group(all...)
}

func class(name string) attrs { return attrs{"class", name} }

func div(c string, kids ...html) html { return el("div", class(c), kids...) }

func span(c string, kids ...html) html { return el("span", class(c), kids...) }

func p(kids ...html) html { return el("p", nil, kids...) }

func code(s string) html { return el("code", nil, text(s)) }

func link(href string, kids ...html) html {
	return el("a", attrs{"href", href}, kids...)
}

// moment is a time, which time.js shows in the person's own zone.
func moment(t time.Time) html {
	if t.IsZero() {
		return text("never")
	}
	t = t.UTC()
	return el("time", attrs{"datetime", t.Format("2006-01-02T15:04:05.000Z")}, text(t.Format("2006-01-02 15:04:05")+" UTC"))
}

// ago is a time of which people want to know how long it is past, or still off.
func ago(t time.Time) html {
	if t.IsZero() {
		return text("never")
	}
	t = t.UTC()
	return el("time", attrs{"datetime", t.Format("2006-01-02T15:04:05.000Z"), "data-relative", ""}, text(t.Format("2006-01-02 15:04:05")+" UTC"))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
