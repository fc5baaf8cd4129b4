package router

import (
	"bufio"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/agent/worker/intent"
)

// A signal is words that speak for an intent. A file of signals has a line "INTENT POINTS" and
// below it, indented, one pattern a line:
//
//	a b      these words, one after the other
//	a/b      either word
//	ab*      a word that begins so
//	_        any one word
//	..       up to six words
//	^        the beginning, after what is only polite
//
// Of one group of an intent and points one pattern counts.
//
//go:embed signals
var files embed.FS

type group struct {
	intent intent.Name
	points int
}

type pattern struct {
	group int
	parts []part
	start bool
}

type part struct {
	any   bool     // "_"
	gap   bool     // ".."
	words []string // exact
	stems []string // beginnings
}

func (p part) fits(word string) bool {
	if p.any {
		return true
	}
	for _, w := range p.words {
		if w == word {
			return true
		}
	}
	for _, s := range p.stems {
		if strings.HasPrefix(word, s) {
			return true
		}
	}
	return false
}

const maxGap = 6

// fits reports whether the pattern stands at the beginning of words.
func fits(parts []part, words []string) bool {
	if len(parts) == 0 {
		return true
	}
	if parts[0].gap {
		for i := 0; i <= min(maxGap, len(words)); i++ {
			if fits(parts[1:], words[i:]) {
				return true
			}
		}
		return false
	}
	return len(words) > 0 && parts[0].fits(words[0]) && fits(parts[1:], words[1:])
}

// lexicon is every signal, found by the first word.
type lexicon struct {
	groups []group
	exact  map[string][]*pattern
	loose  []*pattern // that begin with a stem or any word
	polite [][]string // what a message may begin with and which says nothing
}

func load() (*lexicon, error) {
	l := &lexicon{exact: map[string][]*pattern{}}
	names, err := fs.Glob(files, "signals/*.txt")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := l.read(string(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return l, nil
}

func (l *lexicon) read(text string) error {
	current, polite := -1, false
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case line == "polite":
			polite = true
		case strings.HasPrefix(line, "  ") && polite:
			l.polite = append(l.polite, split(line))
		case strings.HasPrefix(line, "  ") && current >= 0:
			p, err := parse(strings.TrimSpace(line))
			if err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			p.group = current
			l.add(p)
		default:
			name, points, _ := strings.Cut(line, " ")
			many, err := strconv.Atoi(points)
			if _, known := intent.Get(intent.Name(name)); !known || err != nil {
				return fmt.Errorf("line %d is no intent with points: %q", n, line)
			}
			polite = false
			// The languages share their groups: a word that two of them have counts once.
			g := group{intent.Name(name), many}
			if current = slices.Index(l.groups, g); current < 0 {
				current = len(l.groups)
				l.groups = append(l.groups, g)
			}
		}
	}
	return lines.Err()
}

func (l *lexicon) add(p *pattern) {
	first := p.parts[0]
	if first.any || first.gap || len(first.stems) > 0 {
		l.loose = append(l.loose, p)
		return
	}
	for _, w := range first.words {
		l.exact[w] = append(l.exact[w], p)
	}
}

func parse(text string) (*pattern, error) {
	p := &pattern{}
	if rest, ok := strings.CutPrefix(text, "^ "); ok {
		p.start, text = true, rest
	}
	for field := range strings.FieldsSeq(text) {
		switch field {
		case "_":
			p.parts = append(p.parts, part{any: true})
		case "..":
			p.parts = append(p.parts, part{gap: true})
		default:
			// An apostrophe parts words, and so does a hyphen: "don't" is two.
			for _, piece := range strings.FieldsFunc(field, func(r rune) bool { return r == '\'' || r == '-' }) {
				var one part
				for choice := range strings.SplitSeq(piece, "/") {
					folded := split(strings.TrimSuffix(choice, "*"))
					if len(folded) != 1 {
						return nil, fmt.Errorf("%q is no word", choice)
					}
					if strings.HasSuffix(choice, "*") {
						one.stems = append(one.stems, folded[0])
					} else {
						one.words = append(one.words, folded[0])
					}
				}
				p.parts = append(p.parts, one)
			}
		}
	}
	if len(p.parts) == 0 {
		return nil, fmt.Errorf("a pattern without words")
	}
	return p, nil
}

// begin is where a message begins after polite words.
func (l *lexicon) begin(words []string) int {
	at := 0
	for again := true; again; {
		again = false
		for _, polite := range l.polite {
			if len(words)-at > len(polite) && equal(words[at:at+len(polite)], polite) {
				at += len(polite)
				again = true
			}
		}
	}
	return at
}

func equal(a, b []string) bool {
	for i := range b {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// weigh returns the points of each intent that a signal speaks for.
func (l *lexicon) weigh(words []string) map[intent.Name]int {
	begin := l.begin(words)
	seen := make([]bool, len(l.groups))
	for i := begin; i < len(words); i++ {
		try := func(p *pattern) {
			if !seen[p.group] && (!p.start || i == begin) && fits(p.parts, words[i:]) {
				seen[p.group] = true
			}
		}
		for _, p := range l.exact[words[i]] {
			try(p)
		}
		for _, p := range l.loose {
			try(p)
		}
	}
	points := map[intent.Name]int{}
	for i, yes := range seen {
		if yes {
			points[l.groups[i].intent] += l.groups[i].points
		}
	}
	return points
}
