package memory

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fact"
)

// proposal is a question of an agent whether it should remember something.
var proposal = capabilities.Pattern(`(?:` +
	`(?:should|shall|may|can|could) i (?:remember|keep in mind|note|save|store)|(?:do|would) you (?:want|like) me to (?:remember|keep in mind|note|save|store)|` +
	`soll(?:te)? ich (?:mir )?(?:merken|notieren|behalten)|(?:möchtest|willst) du,? dass ich mir (?:merke|notiere)|` +
	`dois-je (?:retenir|noter|me souvenir)|veux-tu que je (?:retienne|note)|` +
	`(?:debo|quieres que) (?:recordar|recuerde|anote)` +
	`)(?:,? (?:that|dass|daß|que|bien que))?\b`)

// aWord is one word of a text.
var aWord = capabilities.Pattern(`[\pL\pN]{2,}`)

// beside are words that an agent's question has where a person's statement has others.
var beside = map[string]bool{
	"you": true, "your": true, "yours": true, "are": true, "is": true, "the": true, "that": true, "for": true,
	"future": true, "this": true, "next": true, "time": true, "later": true, "and": true, "have": true,
	"has": true, "was": true, "an": true, "of": true, "to": true, "du": true, "dein": true, "deine": true,
	"deinen": true, "deiner": true, "dir": true, "dich": true, "bist": true, "hast": true, "der": true,
	"die": true, "das": true, "dass": true, "ist": true, "und": true, "für": true, "tu": true, "ton": true,
	"ta": true, "tes": true, "es": true, "as": true, "que": true, "le": true, "la": true, "les": true,
	"est": true, "et": true, "su": true, "tus": true, "eres": true, "tienes": true, "el": true, "los": true,
	"las": true,
}

// Proposed returns what the agent's last answer asks to remember, in the person's words: the
// sentence of theirs that has every word of the question which says something. "": it asks for
// nothing, or for what the person has not said. The conversation's last line is the person's, and
// the answer to it stands before.
func Proposed(lines []Line) string {
	if len(lines) < 2 || lines[len(lines)-1].Who != Person || lines[len(lines)-2].Who != Agent {
		return ""
	}
	asked := sentences(lines[len(lines)-2].Text)
	for _, s := range slices.Backward(asked) {
		if !s.asks {
			continue
		}
		at := proposal().FindStringIndex(s.plain)
		if at == nil {
			continue
		}
		words := saying(s.plain[:at[0]] + " " + s.plain[at[1]:])
		if len(words) == 0 {
			return ""
		}
		for _, l := range slices.Backward(lines) {
			if l.Who != Person {
				continue
			}
			for _, own := range sentences(l.Text) {
				text := tidy(own.text)
				if !own.asks && text != "" && len(text) <= fact.MaxText && holds(own.plain, words) {
					return text
				}
			}
		}
		return ""
	}
	return ""
}

// saying returns the words of a text that say something.
func saying(plain string) (words []string) {
	for _, w := range aWord().FindAllString(plain, -1) {
		if !beside[w] {
			words = append(words, w)
		}
	}
	return words
}

// holds reports whether a text has all the words, in any form: "liebst" is "liebe".
func holds(plain string, words []string) bool {
	have := aWord().FindAllString(strings.ToLower(plain), -1)
	for _, w := range words {
		if !slices.ContainsFunc(have, func(h string) bool { return sameWord(w, h) }) {
			return false
		}
	}
	return true
}

// sameWord reports whether two words are the same but for an ending of at most three letters.
func sameWord(a, b string) bool {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a == b || n >= 4 && max(len(a), len(b))-n <= 3
}
