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
	cut := 0
	if len(s) > maxPlain {
		at := maxPlain
		for at > 0 && !utf8.RuneStart(s[at]) {
			at--
		}
		s, cut = s[:at], len(s)-at
	}
	var b strings.Builder
	for i, r := range s {
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
	if cut > 0 {
		fmt.Fprintf(&b, " … (%d bytes more)", cut)
	}
	return b.String()
}
