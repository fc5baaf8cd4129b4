package memory

import (
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// The parts of a plain end. Its groups are those of endOf.
const (
	weekdays = `monday|tuesday|wednesday|thursday|friday|saturday|sunday|` +
		`montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag|` +
		`lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|` +
		`lunes|martes|miércoles|miercoles|jueves|viernes|sábado|sabado|domingo`
	months = `january|february|march|april|may|june|july|august|september|october|november|december|` +
		`januar|jänner|februar|märz|maerz|mai|juni|juli|oktober|dezember|` +
		`janvier|février|fevrier|mars|avril|juin|juillet|août|aout|septembre|octobre|novembre|décembre|decembre|` +
		`enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre`
	// A day after "until": tomorrow (1), a weekday (2), a day with its month's name in either order (3
	// to 5, or 6 to 8), an ISO date (9 to 11), or day, month and year with points or, as in French and
	// Spanish, strokes (12 to 14). 12/31/2026 is none: its month is 31.
	aDay = `(?:(tomorrow|morgen|demain|mañana)|(` + weekdays + `)|` +
		`(\d{1,2})(?:st|nd|rd|th|er|\.)?(?: of| de)? (` + months + `)(?:(?: de|,)? (\d{4}))?|` +
		`(` + months + `) (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?|` +
		`(\d{4})-(\d{2})-(\d{2})|` +
		`(\d{1,2})[./](\d{1,2})[./](\d{4}))`
	untilDay = `(?:(?:until|till|'?til)(?: the)?|bis(?: zum| einschließlich)?|jusqu` + ap + `(?:à|au|a)(?: le)?|hasta(?: el)?) ` + aDay
)

var (
	// ordinal is a German day before its month, whose point ends no sentence.
	ordinal = capabilities.Pattern(`^\D{0,2}\d{1,2}\. (?:` + months + `)` + ends)
	// atEnd is a plain end as the last words of a fact, atStart as the first.
	atEnd = capabilities.Pattern(`(?i)(?:^|[\s,(])` + untilDay +
		`(?:[\s,]+(?:please|bitte|por favor|thanks|danke|merci|gracias))?[\s.!…)]*$`)
	atStart = capabilities.Pattern(`(?i)^` + untilDay + `(?:[\s,:]|$)`)
	// ranged makes of an end the second half of a span that comes again, "Monday until Friday".
	ranged = capabilities.Pattern(`(?i)(?:` + weekdays + `|mon|tue|wed|thu|fri|sat|sun|mo|di|mi|do|fr|sa|so)s?\.?[\s,]*$`)
	// over is what was so, and is as true after that day.
	over = capabilities.Pattern(`(?i)` + begins +
		`(?:was|were|had|did|used to|lived|worked|stayed|war|waren|hatte|hatten|gab|wohnte|lebte|arbeitete|` +
		`était|étais|étaient|avait|avais|habitais|travaillais|era|eran|estaba|estuve|estuvo|fue|fui|tenía|vivía|viví|trabajaba|trabajé)` + ends)
)

// Until returns the end that a fact says of itself in plain words, the midnight after the day that
// it names: "the office is closed until Friday", "bis zum 31. Dezember". Zero: it names none, or
// one that is over. A weekday is the next one, a day without a year the next such day.
func Until(text string, now time.Time) time.Time {
	text = tidy(strings.ReplaceAll(text, "’", "'"))
	at := atEnd()
	m := at.FindStringSubmatchIndex(text)
	if m == nil {
		at = atStart()
		m = at.FindStringSubmatchIndex(text)
	}
	if m == nil || ranged().MatchString(text[:m[0]]) || over().MatchString(text) {
		return time.Time{}
	}
	day := endOf(at.FindStringSubmatch(text), now)
	if day.IsZero() {
		return time.Time{}
	}
	if end := day.AddDate(0, 0, 1); end.After(now) {
		return end
	}
	return time.Time{}
}

// endOf returns the day that the groups of aDay name; zero: there is no such day.
func endOf(g []string, now time.Time) time.Time {
	y, m, d := now.Date()
	today := time.Date(y, m, d, 0, 0, 0, 0, now.Location())
	switch {
	case g[1] != "":
		return today.AddDate(0, 0, 1)
	case g[2] != "":
		return today.AddDate(0, 0, 1+(int(weekdayOf(strings.ToLower(g[2])))-int(today.Weekday())+6)%7)
	case g[3] != "":
		return dated(g[5], monthOf(g[4]), g[3], today)
	case g[6] != "":
		return dated(g[8], monthOf(g[6]), g[7], today)
	case g[9] != "":
		return dated(g[9], number(g[10]), g[11], today)
	}
	return dated(g[14], number(g[13]), g[12], today)
}

// dated is one day; of no year, the next one.
func dated(year string, month int, day string, today time.Time) time.Time {
	y, d := number(year), number(day)
	if year == "" {
		if y = today.Year(); time.Date(y, time.Month(month), d, 0, 0, 0, 0, today.Location()).Before(today) {
			y++
		}
	}
	t := time.Date(y, time.Month(month), d, 0, 0, 0, 0, today.Location())
	if t.Day() != d || int(t.Month()) != month { // 31 April
		return time.Time{}
	}
	return t
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // digits, and few
	return n
}

// weekdayOf is the day of a name of weekdays.
func weekdayOf(name string) time.Weekday {
	for i, n := range strings.Split(weekdays, "|") {
		if n != name {
			continue
		}
		switch { // the languages that name a day twice
		case i < 7: // English
			return time.Weekday((i + 1) % 7)
		case i < 15: // German: Samstag, Sonnabend
			return []time.Weekday{1, 2, 3, 4, 5, 6, 6, 0}[i-7]
		case i < 22: // French
			return time.Weekday((i - 14) % 7)
		}
		return []time.Weekday{1, 2, 3, 3, 4, 5, 6, 6, 0}[i-22] // Spanish, with and without accents
	}
	return -1 // never: the pattern has no other
}

// monthOf is the month of a name of months, by the letters that tell it in all four languages.
func monthOf(name string) int {
	name = strings.ToLower(name)
	for i, heads := range [][]string{
		{"jan", "jän", "ene"}, {"feb", "fév", "fev"}, {"mar", "mär", "maer"}, {"apr", "avr", "abr"}, {"may", "mai"},
		{"june", "juni", "juin"}, {"july", "juli", "juil"},
		{"aug", "aoû", "aou", "ago"}, {"sep"}, {"oct", "okt"}, {"nov"}, {"dec", "dez", "déc", "dic"},
	} {
		for _, h := range heads {
			if strings.HasPrefix(name, h) {
				return i + 1
			}
		}
	}
	return 0 // never: the pattern has no other
}
