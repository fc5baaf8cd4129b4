package consent

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPlain is how much of one argument a person is shown, in bytes.
const maxPlain = 300

// Plain gives s so that it reads as what it is: control and formatting characters
// (bidirectional marks, zero width, tags) are written out, bytes that are no text
// too, and what is too long is cut with a note. It never grows past a few times
// maxPlain.
func Plain(s string) string {
	s, cut := cutAt(s, maxPlain)
	text := plainWith(s, nil)
	if cut > 0 {
		text += fmt.Sprintf(" … (%d bytes more)", cut)
	}
	return text
}

// cutAt gives the first most bytes of s, at a character's edge, and how many are left.
func cutAt(s string, most int) (head string, left int) {
	if len(s) <= most {
		return s, 0
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most], len(s) - most
}

// plainWith is Plain without a bound. The characters of as are written as it says.
func plainWith(s string, as map[rune]string) string {
	var b strings.Builder
	for i, r := range s {
		if text, ok := as[r]; ok {
			b.WriteString(text)
			continue
		}
		switch {
		case r == utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				fmt.Fprintf(&b, `\x%02x`, s[i])
				continue
			}
			b.WriteRune(r)
		case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co), unicode.Is(unicode.Variation_Selector, r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
