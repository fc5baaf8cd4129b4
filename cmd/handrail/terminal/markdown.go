package terminal

import (
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
)

// Markdown shows a text in Markdown on a terminal while it comes, piece by piece: headings, lists,
// quotations, code, emphasis and links with their addresses. It holds back no more than what may be
// the beginning of a mark. The text must be safe to show already.
type Markdown struct {
	w    io.Writer
	held string // not written yet
	line bool   // a line has begun
	last rune   // written before

	fence, code, bold, em, heading bool
}

// Marks reports whether w is a terminal that shows Markdown otherwise than as it is written.
func Marks(w io.Writer) bool {
	return Interactive(w) && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
}

// NewMarkdown returns one that writes to a terminal.
func NewMarkdown(w io.Writer) *Markdown { return &Markdown{w: w} }

const (
	maxHeld = 1024 // bytes that may be the beginning of a mark
	plain   = "\x1b[0m"
	boldOn  = "\x1b[1m"
	dimOn   = "\x1b[2m"
	emOn    = "\x1b[3m"
	lineOn  = "\x1b[4m"
	codeOn  = "\x1b[36m"
)

var (
	fenceMark   = regexp.MustCompile("^ {0,3}(?:```|~~~)[^\n]*\n")
	ruleMark    = regexp.MustCompile(`^ {0,3}(?:-[ -]{2,}|\*[ *]{2,}|_[ _]{2,})\n`)
	headingMark = regexp.MustCompile(`^ {0,3}#{1,6} +`)
	listMark    = regexp.MustCompile(`^([ \t]{0,12})[-*+] +`)
	quoteMark   = regexp.MustCompile(`^ {0,3}> ?`)
	// open matches what may yet become one of them, fenced what may end a fence.
	open   = regexp.MustCompile("^(?: {0,3}> ?)?[ \t]{0,12}(?:#{0,6} *|[-+]? *|[-*_ ]*|`{0,2}|~{0,2}|(?:```|~~~)[^\n]*)$")
	fenced = regexp.MustCompile("^ {0,3}(?:`{0,2}|~{0,2}|(?:```|~~~)[^\n]*)$")
	link   = capabilities.Pattern(`^\[([^\[\]\n]{1,300})\]\(([^()\s]{1,600})\)`)
	links  = capabilities.Pattern(`^\[(?:[^\[\]\n]{0,300}|[^\[\]\n]{1,300}\](?:\([^()\s]{0,600})?)$`)
)

// Add shows the next piece.
func (m *Markdown) Add(text string) {
	m.held += text
	m.show(false)
}

// End shows what was held back, and takes every style back.
func (m *Markdown) End() {
	m.show(true)
	if m.styled() {
		m.put(plain)
	}
	*m = Markdown{w: m.w}
}

func (m *Markdown) styled() bool { return m.code || m.bold || m.em || m.heading }

func (m *Markdown) put(s string) { _, _ = io.WriteString(m.w, s) }

// show writes what is decided; all of it if it is the end.
func (m *Markdown) show(end bool) {
	for m.held != "" {
		before := len(m.held)
		if !m.line && !m.begin(end) {
			return
		}
		if m.held == "" || !m.line {
			continue
		}
		if m.fence {
			m.verbatim()
		} else if !m.inline(end || len(m.held) > maxHeld) {
			return
		}
		if len(m.held) == before {
			return
		}
	}
}

// begin takes the marks at a line's beginning; false: more has to come first.
func (m *Markdown) begin(end bool) bool {
	may := open
	if m.fence {
		may = fenced
	}
	if !end && len(m.held) <= maxHeld && may.MatchString(m.held) {
		return false
	}
	m.last = ' '
	if mark := fenceMark.FindString(m.held); mark != "" || end && m.fence && fenceMark.MatchString(m.held+"\n") {
		if mark == "" {
			mark = m.held
		}
		m.held, m.fence = m.held[len(mark):], !m.fence
		return true
	}
	m.line = true
	if m.fence {
		m.put("  " + codeOn)
		return true
	}
	if mark := ruleMark.FindString(m.held); mark != "" {
		m.held, m.line = m.held[len(mark):], false
		m.put(dimOn + strings.Repeat("─", 24) + plain + "\n")
		return true
	}
	if mark := quoteMark.FindString(m.held); mark != "" {
		m.held = m.held[len(mark):]
		m.put(dimOn + "│ " + plain)
	}
	if mark := headingMark.FindString(m.held); mark != "" {
		m.held, m.heading = m.held[len(mark):], true
		m.put(boldOn)
	} else if mark := listMark.FindStringSubmatch(m.held); mark != nil {
		m.held = m.held[len(mark[0]):]
		m.put(mark[1] + "• ")
	}
	return true
}

// verbatim writes a fence's line, as far as it came.
func (m *Markdown) verbatim() {
	part, rest, over := strings.Cut(m.held, "\n")
	m.put(part)
	if m.held = rest; over {
		m.put(plain + "\n")
		m.line = false
	}
}

// inline writes one character, or takes one mark; false: more has to come first.
func (m *Markdown) inline(end bool) bool {
	r, n := utf8.DecodeRuneInString(m.held)
	after := func(i int) rune {
		r, _ := utf8.DecodeRuneInString(m.held[i:])
		return r
	}
	switch {
	case r == '\n':
		if m.styled() {
			m.put(plain)
		}
		m.code, m.bold, m.em, m.heading, m.line = false, false, false, false, false
		m.put("\n")
		m.held = m.held[n:]
		return true
	case r == '`':
		run := len(m.held) - len(strings.TrimLeft(m.held, "`"))
		if run == len(m.held) && !end {
			return false
		}
		m.code = !m.code
		m.restyle(m.held[run:])
		return true
	case m.code:
	case r == '\\':
		if len(m.held) == n && !end {
			return false
		}
		if next := after(n); next < utf8.RuneSelf && (unicode.IsPunct(next) || unicode.IsSymbol(next)) {
			m.held = m.held[n:]
			r, n = next, 1
		}
	case r == '*' || r == '_':
		run := len(m.held) - len(strings.TrimLeft(m.held, string(r)))
		if run == len(m.held) && !end {
			return false
		}
		if m.emphasis(r, run, after(run), run == len(m.held)) {
			return true
		}
		m.put(m.held[:run])
		m.held, m.last = m.held[run:], r
		return true
	case r == '[':
		if found := link().FindStringSubmatch(m.held); found != nil {
			m.put(lineOn + found[1])
			m.restyle(m.held[len(found[0]):])
			if found[1] != found[2] {
				m.put(" (" + found[2] + ")")
			}
			m.last = ')'
			return true
		}
		if !end && links().MatchString(m.held) {
			return false
		}
	}
	m.put(m.held[:n])
	m.held, m.last = m.held[n:], r
	return true
}

// emphasis takes a run of stars or underscores as emphasis, unless it is a character of the text.
func (m *Markdown) emphasis(mark rune, run int, next rune, over bool) bool {
	blank := func(r rune) bool { return unicode.IsSpace(r) }
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	opens, closes := !over && !blank(next), !blank(m.last)
	if mark == '_' {
		opens, closes = opens && !word(m.last), closes && (over || !word(next))
	}
	bold, em := run >= 2, run%2 == 1
	if run > 3 || bold && !(m.bold && closes || !m.bold && opens) || em && !(m.em && closes || !m.em && opens) {
		return false
	}
	m.bold, m.em = m.bold != bold, m.em != em
	m.restyle(m.held[run:])
	return true
}

// restyle goes on with a rest of the text in the styles that are on.
func (m *Markdown) restyle(rest string) {
	m.held = rest
	style := plain
	if m.bold || m.heading {
		style += boldOn
	}
	if m.em {
		style += emOn
	}
	if m.code {
		style += codeOn
	}
	m.put(style)
}
