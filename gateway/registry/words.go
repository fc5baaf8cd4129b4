package registry

import (
	"slices"
	"strings"
	"unicode"
)

// maxWords bounds what is read of a text.
const maxWords = 256

// words returns the words of a text in order, at most 256: lower case, split at anything but
// letters and digits, and where a capital follows a small letter ("getPet").
func words(text string) []string {
	var list []string
	start, last := -1, rune(0)
	cut := func(end int) {
		if start >= 0 && len(list) < maxWords {
			list = append(list, strings.ToLower(text[start:end]))
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			cut(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && unicode.IsLower(last):
			cut(i)
			start = i
		}
		last = r
	}
	cut(len(text))
	return list
}

// stopwords carry no choice.
var stopwords = setOf(`a all an and any are as at be been by can could did do does each every few for from had has have
	how i if in into is it its let like lot may me more most much must my need no not of off on one or our out over own
	please several should so some such take takes than that the their them then there these they this those to too
	up use using via want was we were when where whether which who whose will with would you your`)

func setOf(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// stem cuts the endings of English inflection, so that "creating", "creates" and "created" are one
// word. It need not be a word of English: both sides are cut alike. Short words stay.
func stem(w string) string {
	if len(w) < 4 {
		return w
	}
	switch {
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "xes"):
		w = w[:len(w)-2]
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		w = w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		w = w[:len(w)-1]
	}
	for _, end := range []string{"ation", "ating", "ated", "ate", "ator", "ing", "ed", "er"} {
		cut, ok := strings.CutSuffix(w, end)
		if !ok || len(cut) < 3 || len(cut) < 4 && end == "er" || !vowel(cut) {
			continue
		}
		w = cut
		if n := len(w); n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("lsz", rune(w[n-1])) {
			w = w[:n-1] // "planned" is "plan"
		}
		break
	}
	if len(w) > 3 {
		w = strings.TrimSuffix(w, "e")
	}
	if n := len(w); n > 3 && w[n-1] == 'y' {
		w = w[:n-1] + "i"
	}
	return w
}

func vowel(w string) bool { return strings.ContainsAny(w, "aeiouy") }

// synonyms are groups of words that ask for the same: the verbs of the field first. A word that an
// intent has counts less where a tool says it otherwise.
var synonyms = groups(`
	get read show view see retrieve fetch look display print inspect info information details detail
	list enumerate browse overview
	create new make add generate
	delete remove drop erase forget uninstall clear discard
	update change edit modify set patch replace
	search find query look lookup locate
	navigate open visit go url address link website site page web
	click press tap push
	type enter write input fill
	run execute start launch trigger begin invoke perform
	rerun re-run retry repeat again
	stop end cancel abort close quit finish terminate
	screenshot picture image photo
	video film movie screencast recording
	record capture
	save store export write keep
	load restore import
	directory folder
	repository repo project
	message post send
	user person people account profile
	member user
	move rename
	select choose pick option
	webcam camera
	microphone sound voice audio
	location position coordinates gps
	shell bash command terminal
	paste clipboard copy
	error log
	approve review
	accept handle confirm
	invite invitation add
	device node machine
	remember memory knowledge
	sum add plus total
	compress zip gzip
	count number amount
	size big large
	emulate simulate
	dialog alert confirm prompt
	attach upload
	environment env
	documentation docs explain
	property attribute field
	reply respond answer comment
	assign assignee
	visible check verify
	diff patch compare
`)

// groups maps the stem of each word to the stems of those that it stands with.
func groups(text string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(text) {
		var group []string
		for _, w := range strings.Fields(line) {
			if s := stem(w); !slices.Contains(group, s) {
				group = append(group, s)
			}
		}
		for _, w := range group {
			for _, other := range group {
				if other != w && !slices.Contains(all[w], other) {
					all[w] = append(all[w], other)
				}
			}
		}
	}
	return all
}

// terms returns the distinct stems of a text without stopwords, in order, and pairs of neighbours
// written as one, by which "local storage" and "localStorage" meet.
func terms(text string, pairs bool) []string {
	var list []string
	eachTerm(text, pairs, func(stem, _, _ string) {
		if !slices.Contains(list, stem) {
			list = append(list, stem)
		}
	})
	return list
}

// eachTerm calls yield with what terms returns, the same stem again where it comes again, and with
// the word that it was made of: of a pair also with the one before.
func eachTerm(text string, pairs bool, yield func(stem, before, word string)) {
	before := ""
	for _, w := range words(text) {
		if pairs && before != "" && len(before)+len(w) < 32 {
			yield(stem(before+w), before, w)
		}
		before = w
		if !stopwords[w] {
			yield(stem(w), "", w)
		}
	}
}
