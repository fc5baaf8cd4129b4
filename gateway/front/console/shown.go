package console

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// A value becomes part of a page by one function for each kind of place.

// lineEnds are one space in text that stands on one line.
var lineEnds = map[rune]string{'\r': " ", '\n': " "}

// show is how everything is read by people: on one line, with the characters that are not
// seen, or that turn what follows them, written out.
func show(x any) string {
	if x == nil {
		return ""
	}
	return capabilities.EscapeBut(fmt.Sprint(x), lineEnds)
}

// term is show for code. A long name with dots, such as a capability key, breaks behind those where
// a phone is too narrow for it, not within a word.
func term(x any) template.HTML {
	const longest = 16
	text := show(x)
	out := template.HTMLEscapeString(text)
	if len(text) > longest && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789._-") == "" {
		out = strings.NewReplacer(".", ".<wbr>", "_", "_<wbr>").Replace(out)
	}
	return template.HTML(out)
}

// lines is show for text of several lines, which keeps its newlines and tabs; for pre.
func lines(x any) string {
	s := strings.ReplaceAll(fmt.Sprint(x), "\r\n", "\n")
	return capabilities.EscapeBut(strings.TrimSuffix(s, "\r"), map[rune]string{'\n': "\n", '\t': "\t", '\r': " "})
}

// value is what comes back from a page as it is: values of forms, names of elements.
func value(x any) string { return fmt.Sprint(x) }

// kept is value for the content of a textarea.
func kept(x any) string {
	return "\n" + fmt.Sprint(x) // browsers drop the first one
}

// address leads to a place of the console.
type address string

// own returns an address, if it stays within the console.
func own(s string) address {
	if !ownAddress(s) {
		return "#"
	}
	return address(s)
}

// within joins segments into an address of the console.
func within(segments ...any) address {
	all := make([]string, len(segments))
	for i, s := range segments {
		all[i] = fmt.Sprint(s)
	}
	return address(at(all...))
}

// pair is a value with its name.
type pair struct {
	Name  string
	Value any
}

func pairOf(name string, x any) pair { return pair{name, x} }

func list(all ...string) []string { return all }

// stamp is a moment as time.js reads it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// clock is a moment for people whose browser runs no script.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// choice is one of several in a form.
type choice struct {
	ID, Name, Label string
	Options         []option
}

type option struct {
	Value, Text string
	Chosen      bool
}

// choose returns a choice; options are values and texts in turn.
func choose(id, name, label, chosen string, options ...string) choice {
	c := choice{ID: id, Name: name, Label: label}
	for i := 0; i+1 < len(options); i += 2 {
		c.Options = append(c.Options, option{options[i], options[i+1], options[i] == chosen})
	}
	return c
}

// once is a text that is shown once and carried elsewhere.
type once struct{ ID, Label, Text string }

// ownAddress reports whether an address stays within the console. Nobody guesses here how a browser
// reads a backslash or a tab in an address.
func ownAddress(s string) bool {
	if strings.ContainsFunc(s, func(r rune) bool { return r == '\\' || r < ' ' }) {
		return false
	}
	return strings.HasPrefix(s, "/console/") || strings.HasPrefix(s, "#") || strings.HasPrefix(s, "?")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
