package registry

import (
	"slices"
	"strings"
	"unicode"

	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// index holds the words of every tool with their weight, and how many tools
// know each word.
type index struct {
	byTool map[*catalog.Descriptor]map[string]int
	spread map[string]int
}

// Where a word stands says how much it means.
const (
	weightID          = 6
	weightTag         = 4
	weightTitle       = 3
	weightDescription = 1
)

func newIndex(all []*catalog.Descriptor) *index {
	x := &index{byTool: make(map[*catalog.Descriptor]map[string]int, len(all)), spread: map[string]int{}}
	for _, d := range all {
		weights := map[string]int{}
		for _, field := range []struct {
			text   string
			weight int
		}{
			{d.Tool.Family() + " " + d.Tool.Action(), weightID},
			{strings.Join(d.Tags, " "), weightTag},
			{d.Title, weightTitle},
			{d.Description, weightDescription},
		} {
			for _, word := range tokens(field.text) {
				weights[word] = max(weights[word], field.weight)
			}
		}
		x.byTool[d] = weights
		for word := range weights {
			x.spread[word]++
		}
	}
	return x
}

// match is how well one tool fits.
type match struct {
	d     *catalog.Descriptor
	score int
	hits  []string // in the order of the intent
}

// rate counts each word of the intent once: its weight, more if few tools know it. Integers, so
// that every machine has the same order.
func (x *index) rate(d *catalog.Descriptor, words []string) match {
	m := match{d: d}
	for _, word := range words {
		if weight := x.byTool[d][word]; weight > 0 {
			m.score += weight * (1000/x.spread[word] + 100)
			m.hits = append(m.hits, word)
		}
	}
	return m
}

// compare orders better matches first; among equals the smaller side effect,
// then the ID, so that the order is total.
func (m match) compare(other match) int {
	if m.score != other.score {
		return other.score - m.score
	}
	order := []catalog.SideEffects{catalog.EffectsNone, catalog.EffectsLocal, catalog.EffectsExternal}
	if c := slices.Index(order, m.d.SideEffects) - slices.Index(order, other.d.SideEffects); c != 0 {
		return c
	}
	return strings.Compare(string(m.d.Tool), string(other.d.Tool))
}

// summary is the words that some tool knows, at most 32.
func (x *index) summary(words []string) string {
	known := x.known(words)
	return strings.Join(known[:min(len(known), 32)], " ")
}

func (x *index) known(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return x.spread[w] == 0 })
}

// stopwords carry no choice.
var stopwords = map[string]bool{
	"a": true, "an": true, "and": true, "as": true, "at": true, "be": true, "by": true, "for": true, "from": true,
	"has": true, "in": true, "into": true, "is": true, "it": true, "its": true, "me": true, "my": true, "no": true,
	"of": true, "on": true, "one": true, "or": true, "our": true, "please": true, "so": true, "that": true, "the": true,
	"their": true, "them": true, "then": true, "there": true, "this": true, "to": true, "up": true, "use": true,
	"what": true, "where": true, "which": true, "with": true, "you": true, "your": true,
}

const maxWords = 256

// tokens returns the distinct words of a text in order, at most 256: lower case,
// split at anything but letters and digits, without stopwords, plurals made
// singular.
func tokens(text string) []string {
	var list []string
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") {
			word = word[:len(word)-1]
		}
		if !stopwords[word] && !slices.Contains(list, word) {
			list = append(list, word)
		}
		if len(list) == maxWords {
			break
		}
	}
	return list
}
