package capabilities

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text of others (a device's name, a page's title, an agent's reason) stands in terminals,
// pages, notices, logs and prompts. This file is the one place that says which characters of
// it are dangerous there, and what becomes of them.

// Hidden reports whether a character is dangerous to show: it is not seen, or it changes how
// the characters around it are shown, so that a text does not read as what it is. The rule is
// one for all surfaces, and the strictest that any of them had:
//
//   - what Unicode counts as no graphic character: controls with newline, tab and escape;
//     format characters with the bidirectional marks, zero-width characters and tags; line and
//     paragraph separators; surrogates, private use and what is not assigned
//   - variation selectors: a row of them carries bytes that nobody sees
//   - letters and marks that are drawn as nothing (Other_Default_Ignorable_Code_Point), such as
//     the Hangul fillers
//
// Spaces of other widths are seen, as space, and are not dangerous.
func Hidden(r rune) bool {
	if ' ' <= r && r <= '~' {
		return false
	}
	return !unicode.IsGraphic(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Printable returns s without what is Hidden and without bytes that are no UTF-8; every other
// kind of space becomes a plain one. It is for names that are kept: what is printable stays as
// it is, and Printable(s) == s says that s is.
func Printable(s string) string {
	if printable(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case Hidden(r):
			return -1
		case unicode.Is(unicode.Zs, r):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return Hidden(r) || r != ' ' && unicode.Is(unicode.Zs, r) })
		}
	}
	return true
}

// Escape returns s so that it reads as what it is, on one line: a Hidden character is written
// out as \u{202e}, a byte that is no UTF-8 as \x9f. It is for what people judge by.
func Escape(s string) string { return EscapeBut(s, nil) }

// EscapeBut is Escape, but the characters of as are written as it says.
func EscapeBut(s string, as map[rune]string) string {
	if len(as) == 0 && !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || Hidden(r) }) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if text, ok := as[r]; ok {
			b.WriteString(text)
			continue
		}
		switch _, n := utf8.DecodeRuneInString(s[i:]); {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case Hidden(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Clip returns the first most bytes of s, or fewer so that no character is cut; 0 or less
// returns "". The result is valid UTF-8: a run of bytes that are none becomes one U+FFFD.
func Clip(s string, most int) string {
	if len(s) > most {
		s = s[:edge(s, max(most, 0))]
	}
	if utf8.ValidString(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > most {
		s = s[:edge(s, max(most, 0))]
	}
	return s
}

// edge returns the largest end of a character of s at or before byte at, which lies in s;
// among bytes that are no UTF-8 it returns at.
func edge(s string, at int) int {
	for back := 0; back < utf8.UTFMax && back <= at; back++ {
		if utf8.RuneStart(s[at-back]) {
			return at - back
		}
	}
	return at
}

// Brief returns s with at most most characters, the last an ellipsis if that cut it. most must
// be positive.
func Brief(s string, most int) string {
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	return First(s, most-1) + "…"
}

// First returns the first most characters of s; 0 or less returns "". A byte that is no UTF-8
// counts as one, and stays.
func First(s string, most int) string {
	if most > 0 && len(s) <= most {
		return s
	}
	for i := range s {
		if most <= 0 {
			return s[:i]
		}
		most--
	}
	return s
}
