package template

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/handrail-dev/handrail/agent/worker/named"
	"github.com/handrail-dev/handrail/capabilities"
)

// maxHits is how many elements are shown of those that a message names.
const maxHits = 20

var (
	// seeks are messages that look for something, which either is there or is not.
	seeks = capabilities.Pattern(
		`(?i)(?:^|[^\pL])(?:find|where|locate|look for|search|finde|such\pL*|wo|cherche\pL*|trouve\pL*|où|ou est|busca\pL*|encuentra\pL*|dónde|donde)(?:$|[^\pL])`)
	ref = regexp.MustCompile(` \[ref=[^\]]*\]`)
)

// plain are words by which people ask, and which name nothing of what they look for.
var plain = wordSet(`
	a an the of for in on at to is are was be it its my me i you your we our this that these those and or not no yes with from by as do
	does did can could would please show tell find where what which how look see locate search read there here set change turn now any
	some all has have setting settings option options preference preferences control button window windows desktop screen program app
	open menu called named
	der die das den dem des ein eine einen einem einer ist sind im am auf in mein meine meinem meinen mir bitte zeig zeige finde suche
	such wo was welche welches wie gibt es steht einstellung einstellungen knopf fenster bildschirm schreibtisch programm von für zu und
	oder
	le la les un une des du de ce cette est sont sur dans mon ma mes moi où ou quoi que quel quelle cherche trouve montre réglage
	réglages paramètre paramètres bouton fenêtre écran bureau programme pour et
	el los las un una unos de del es son en mi mis me dónde donde qué que cuál busca encuentra muestra ajuste ajustes opción botón
	ventana pantalla escritorio programa para y`)

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// lookedFor returns what a message names: its quotation or else its words that are not plain.
func lookedFor(message string) []string {
	if q := named.Quote(message); q != "" {
		return []string{strings.ToLower(q)}
	}
	var all []string
	for _, w := range strings.FieldsFunc(strings.ToLower(named.Replace(message, " ", " ", " ")), notInWord) {
		if len(w) > 1 && !plain[w] && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}

func notInWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// about returns the elements of an outline that a message names, each with what it is inside of;
// where it names none, all of it. An outline is indented by two blanks a level.
func about(message, outline string) string {
	words := lookedFor(message)
	if len(words) == 0 {
		return outline
	}
	type hit struct {
		line  string
		score int
	}
	var hits []hit
	var inside []string
	best := 0
	for line := range strings.SplitSeq(ref.ReplaceAllString(outline, ""), "\n") {
		text := strings.TrimLeft(line, " ")
		depth := min((len(line)-len(text))/2, len(inside))
		text = strings.TrimPrefix(text, "- ")
		inside = append(inside[:depth], text)
		score := 0
		for _, w := range words {
			if names(strings.ToLower(text), w) {
				score++
			}
		}
		if score > 0 {
			hits = append(hits, hit{strings.Join(inside, " › "), score})
			best = max(best, score)
		}
	}
	if best == 0 {
		if seeks().MatchString(message) {
			return fmt.Sprintf("Nothing that is shown has the words %s. This is shown:\n%s", strings.Join(words, ", "), outline)
		}
		return outline
	}
	hits = slices.DeleteFunc(hits, func(h hit) bool { return h.score < best })
	lines := make([]string, 0, maxHits+1)
	for _, h := range hits[:min(len(hits), maxHits)] {
		lines = append(lines, h.line)
	}
	if len(hits) > maxHits {
		lines = append(lines, fmt.Sprintf("(%d more)", len(hits)-maxHits))
	}
	return strings.Join(lines, "\n")
}

// names reports whether a text has words that begin as one does, or the whole of a quotation.
func names(text, word string) bool {
	if strings.ContainsFunc(word, notInWord) {
		return strings.Contains(text, word)
	}
	return slices.ContainsFunc(strings.FieldsFunc(text, notInWord), func(w string) bool { return strings.HasPrefix(w, word) })
}
