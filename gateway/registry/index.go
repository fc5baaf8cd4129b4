package registry

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Where a word stands says how much it means.
const (
	weightName        = 10
	weightTitle       = 8
	weightTag         = 5
	weightDescription = 4
	weightArgument    = 3

	// A word that a tool says otherwise counts this many tenths.
	synonymTenths = 5
)

// index finds tools by words. It never changes; a View makes it once, when it is first asked for.
type index struct {
	tools    []*catalog.Descriptor
	places   map[*catalog.Descriptor]int32
	postings map[string][]posting
	rarity   map[string]int32 // of each word, in hundredths
	named    []int32          // how many words each tool's name has
}

// posting is one tool that has a word.
type posting struct {
	tool   int32
	weight int16
	name   bool // the word is one of its name
}

func newIndex(all []*catalog.Descriptor) *index {
	x := &index{
		tools: all, places: make(map[*catalog.Descriptor]int32, len(all)), postings: make(map[string][]posting, 4*len(all)),
		named: make([]int32, len(all)),
	}
	for i, d := range all {
		at := int32(i)
		x.places[d] = at
		for word, p := range describe(d) {
			p.tool = at
			x.postings[word] = append(x.postings[word], p)
		}
		x.named[i] = int32(max(len(terms(d.Tool.Action(), false)), 1))
	}
	x.rarity = make(map[string]int32, len(x.postings))
	for word, list := range x.postings {
		x.rarity[word] = rarity(len(all), len(list))
	}
	return x
}

// describe returns the words of one tool, each with its best weight.
func describe(d *catalog.Descriptor) map[string]posting {
	found := make(map[string]posting, 32)
	put := func(list []string, weight int16, name bool) {
		for _, w := range list {
			p := found[w]
			p.weight, p.name = max(p.weight, weight), p.name || name
			found[w] = p
		}
	}
	put(terms(d.Tool.Family()+" "+d.Tool.Action(), true), weightName, false)
	put(terms(d.Tool.Action(), false), weightName, true)
	put(terms(d.Title, true), weightTitle, false)
	put(terms(strings.Join(d.Tags, " "), false), weightTag, false)
	put(terms(d.Description, false), weightDescription, false)
	put(terms(strings.Join(d.Arguments(), " "), false), weightArgument, false)
	return found
}

// rarity is 100 · log₂(1 + all/some), in integers, so that every machine has the same order.
func rarity(all, some int) int32 {
	ratio := uint64(all+some) << 16 / uint64(some) // 16 binary places
	whole := bits.Len64(ratio) - 1
	fraction := int64(ratio<<(63-whole)&(1<<63-1)) >> 43 // the 20 places after the first one
	// log₂(1+f) is f + 0.34·f·(1-f), to a hundredth.
	bend := fraction * (1<<20 - fraction) >> 20 * 34 / 100
	return int32(int64(whole-16)*100 + (fraction+bend)*100>>20)
}

// match is how well one tool fits.
type match struct {
	d     *catalog.Descriptor
	score int
	hits  []string // words of the intent as they were written, in its order
}

// concept is one word of an intent, with what says the same.
type concept struct {
	word string
	also []string
	said []string // as it was written: two words of a pair, without stopwords
}

// concepts returns the words of an intent that some tool knows, by themselves or by a synonym.
func (x *index) concepts(text string) []concept {
	var list []concept
	seen := map[string]bool{}
	eachTerm(text, true, func(w, before, word string) {
		if seen[w] {
			return
		}
		seen[w] = true
		c := concept{word: w}
		for _, said := range []string{before, word} {
			if said != "" && !stopwords[said] {
				c.said = append(c.said, said)
			}
		}
		for _, s := range synonyms[w] {
			if len(x.postings[s]) > 0 {
				c.also = append(c.also, s)
			}
		}
		if len(x.postings[w]) > 0 || len(c.also) > 0 {
			list = append(list, c)
		}
	})
	return list
}

// rank returns the tools of which some word fits, best first. Each concept counts once for a tool:
// where the word stands, times how rare it is. The name of a tool counts once more by how much of
// it the intent says, so that "create an issue" is not "create an issue comment".
func (x *index) rank(intent []concept, wanted func(*catalog.Descriptor) bool) []match {
	score := make([]int32, len(x.tools))
	named := make([]int32, len(x.tools))
	best := make([]int32, len(x.tools)) // of the concept at hand
	names := make([]bool, len(x.tools))
	var touched []int32
	for _, c := range intent {
		touched = touched[:0]
		add := func(word string, tenths int32) {
			rare := x.rarity[word]
			for _, p := range x.postings[word] {
				value := int32(p.weight) * rare * tenths / 10
				if best[p.tool] == 0 {
					touched = append(touched, p.tool)
				}
				best[p.tool] = max(best[p.tool], value, 1)
				names[p.tool] = names[p.tool] || p.name
			}
		}
		add(c.word, 10)
		for _, w := range c.also {
			add(w, synonymTenths)
		}
		for _, t := range touched {
			score[t] += best[t]
			if names[t] {
				named[t]++
			}
			best[t], names[t] = 0, false
		}
	}
	var list []match
	for i, s := range score {
		if s == 0 || !wanted(x.tools[i]) {
			continue
		}
		whole := min(named[i]*100/x.named[i], 100) // how much of its name the intent says
		list = append(list, match{d: x.tools[i], score: int(s) * int(100+whole/2) / 100})
	}
	slices.SortFunc(list, match.compare)
	return list
}

// explain fills in which words of the intent a tool has.
func (x *index) explain(m *match, intent []concept) {
	at := x.places[m.d]
	has := func(word string) bool {
		_, ok := slices.BinarySearchFunc(x.postings[word], at, func(p posting, at int32) int { return int(p.tool - at) })
		return ok
	}
	for _, c := range intent {
		if has(c.word) || slices.ContainsFunc(c.also, has) {
			for _, said := range c.said {
				if !slices.Contains(m.hits, said) {
					m.hits = append(m.hits, said)
				}
			}
		}
	}
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

// summary is the words of an intent that some tool has, as they were said, at most 32. A word that
// is known by a synonym alone is left out, as any that no tool says itself: a password is no word
// of a tool.
func (x *index) summary(intent []concept) string {
	var known []string
	for _, c := range intent {
		if len(x.postings[c.word]) == 0 {
			continue
		}
		for _, said := range c.said {
			if len(known) < 32 && !slices.Contains(known, said) {
				known = append(known, said)
			}
		}
	}
	return strings.Join(known, " ")
}

// known returns those of some tags that a tool has.
func (x *index) known(tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(tag string) bool {
		return !slices.ContainsFunc(x.tools, func(d *catalog.Descriptor) bool { return slices.Contains(d.Tags, tag) })
	})
}

// only says which tools to choose from: those that are named, or, for nil, every one that a model
// may call.
func only(ids []capabilities.ToolID) func(*catalog.Descriptor) bool {
	if ids == nil {
		return func(d *catalog.Descriptor) bool { return d.ModelFacing }
	}
	set := make(map[capabilities.ToolID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return func(d *catalog.Descriptor) bool { return set[d.Tool] }
}
