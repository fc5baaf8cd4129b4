package router

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"

	"github.com/handrail-dev/handrail/agent/worker/named"
)

// Words that stand in a message for something that is data.
const (
	wordQuote = "<quote>"
	wordURL   = "<url>"
	wordFile  = "<file>" // a name with an ending, or a path
)

var markup = regexp.MustCompile(`<!--[\s\S]*?(?:-->|$)|\{[^{}]*\}`)

// words takes a message apart: lower case, without accents, data as one word of its own. A
// question mark and the end of a sentence are words, too.
func words(text string) []string {
	text = markup.ReplaceAllString(text, " ")
	text = named.Replace(text, " "+wordQuote+" ", " "+wordURL+" ", " "+wordFile+" ")
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
