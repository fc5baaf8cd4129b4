package router

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// Words that stand in a message for something that is data.
const (
	wordQuote = "<quote>"
	wordURL   = "<url>"
	wordFile  = "<file>" // a name with an ending, or a path
)

var (
	markup = regexp.MustCompile(`<!--[\s\S]*?(?:-->|$)|\{[^{}]*\}`)
	quoted = regexp.MustCompile(`"[^"]*"|“[^”]*”|„[^“”]*[“”]|«[^»]*»`)
	// A name that ends in a top-level domain is an address; one with another ending is a file.
	address = regexp.MustCompile(
		`(?i)\b(?:https?|ftp)://\S+|\b(?:[\pL\d-]+\.)+(?:com|org|net|edu|gov|io|dev|app|info|biz|eu|uk|de|fr|es|it|at|ch|nl|be|pl|se|no|fi|dk|us|ca|au|jp)\b(?:[:/]\S*)?`)
	file = regexp.MustCompile(
		`(?i)(?:~|\.{1,2})?/[\pL\d_.~/-]+|\b[\pL\d_-]+(?:/[\pL\d_.-]+)+|\b[\pL\d_-]+(?:\.[\pL\d_-]+)*\.[a-z][a-z0-9]{0,4}\b`)
)

// words takes a message apart: lower case, without accents, data as one word of its own. A
// question mark and the end of a sentence are words, too.
func words(text string) []string {
	text = markup.ReplaceAllString(text, " ")
	text = quoted.ReplaceAllString(text, " "+wordQuote+" ")
	text = address.ReplaceAllString(text, " "+wordURL+" ")
	text = file.ReplaceAllStringFunc(text, func(s string) string {
		if strings.ContainsAny(s, "./") && !strings.HasPrefix(s, "<") {
			return " " + wordFile + " "
		}
		return s
	})
	return split(text)
}

// split returns the words of a text without looking for data in it; patterns are read by it, too.
func split(text string) []string {
	folded, _, err := transform.String(transform.Chain(norm.NFKD, runes.Remove(runes.In(unicode.Mn))), text)
	if err != nil {
		folded = text
	}
	folded = strings.ReplaceAll(strings.ToLower(folded), "ß", "ss")
	var list []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			list = append(list, word.String())
			word.Reset()
		}
	}
	for _, r := range folded {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '<', r == '>', r == '_':
			word.WriteRune(r)
		case r == '?':
			end()
			list = append(list, "?")
		case r == '.', r == '!', r == ';', r == '\n':
			end()
			if len(list) > 0 && list[len(list)-1] != "." {
				list = append(list, ".")
			}
		default:
			end()
		}
	}
	end()
	return list
}
