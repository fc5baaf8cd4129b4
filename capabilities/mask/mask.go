package mask

import (
	"regexp"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Kind is a kind of personal data. Its text stands in its place, in brackets.
type Kind string

// The kinds.
const (
	Email   Kind = "email"
	Phone   Kind = "phone"
	Card    Kind = "card"
	Account Kind = "account" // an IBAN
	ID      Kind = "id"      // a number that a state gave a person
	Name    Kind = "name"    // only in fields that are declared to hold one
)

// Counts are how many of each kind were masked.
type Counts map[Kind]int

// Add adds the counts of another.
func (c Counts) Add(more Counts) {
	for kind, n := range more {
		c[kind] += n
	}
}

// rule finds one kind. The groups before and after keep what only bounds it.
type rule struct {
	kind  Kind
	form  func() *regexp.Regexp // its first group is what is masked
	holds func(string) bool
}

// rules are tried in this order, each on what those before left: an account may look like a phone
// number inside.
var rules = []rule{
	{Email, capabilities.Pattern(`([A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.)+[A-Za-z]{2,24})`), nil},
	{Account, bounded(`[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}`), iban},
	{ID, bounded(`[12](?: ?[0-9]{2}){3}(?: ?[0-9]{3}){2} ?[0-9]{2}`), nir},
	{Card, bounded(`[0-9](?:[ -]?[0-9]){12,18}`), card},
	{ID, bounded(`[0-9]{3}-[0-9]{2}-[0-9]{4}`), ssn},
	{ID, bounded(`[A-Za-z]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-Da-d]`), nino},
	{ID, bounded(`[XYZxyz]?-?[0-9]{7,8}-?[A-Za-z]`), dni},
	{ID, bounded(`[1-9][0-9] ?[0-9]{3} ?[0-9]{3} ?[0-9]{3}`), taxID},
	{Phone, bounded(`(?:\+|00)[1-9](?:[ ./()-]{0,2}[0-9]){6,14}`), nil},
	{Phone, bounded(`\(0?[0-9]{2,5}\)[ ./-]?[0-9]{2,4}(?:[ ./-]?[0-9]{2,4}){1,3}`), nil},
	{Phone, bounded(`[2-9][0-9]{2}[ .-][2-9][0-9]{2}[ .-][0-9]{4}`), nil},
	{Phone, bounded(`0[1-9][0-9]{1,4}(?:[ /-][0-9]{2,8}){1,4}`), digits(7, 15)},
}

// bounded is a form that no letter, digit or sign of a longer number stands beside.
func bounded(form string) func() *regexp.Regexp {
	return capabilities.Pattern(`(?:^|[^A-Za-z0-9_.@+-])(` + form + `)(?:$|[^A-Za-z0-9_@])`)
}

// Text returns a text without personal data, and how much was masked. It works line by line.
func Text(s string) (string, Counts) {
	counts := Counts{}
	if !strings.ContainsAny(s, "0123456789@") {
		return s, counts
	}
	var b strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		b.WriteString(maskLine(line, counts))
	}
	return b.String(), counts
}

// maskLine masks one line until nothing is found any more: what is masked may bound what is not.
func maskLine(line string, counts Counts) string {
	for changed := true; changed; {
		changed = false
		for _, r := range rules {
			masked := r.apply(line, counts)
			changed = changed || masked != line
			line = masked
		}
	}
	return line
}

func (r *rule) apply(s string, counts Counts) string {
	var b strings.Builder
	at := 0
	for at <= len(s) {
		m := r.form().FindStringSubmatchIndex(s[at:])
		if m == nil {
			break
		}
		from, to := at+m[2], at+m[3]
		if r.holds != nil && !r.holds(s[from:to]) {
			// A number may begin behind its first gap.
			next := to
			if gap := strings.IndexAny(s[from:to], " -./()"); gap > 0 {
				next = from + gap
			}
			b.WriteString(s[at:next])
			at = next
			continue
		}
		b.WriteString(s[at:from] + r.kind.placeholder())
		counts[r.kind]++
		at = to
	}
	if at == 0 {
		return s
	}
	if at < len(s) {
		b.WriteString(s[at:])
	}
	return b.String()
}

func (k Kind) placeholder() string { return "[" + string(k) + "]" }
