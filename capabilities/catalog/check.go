package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// step is one link of the path to the value under check; it lives on the stack.
type step struct {
	up    *step
	key   string
	index int // used if key is ""
	named bool
}

func (s *step) pointer() string {
	if s == nil {
		return ""
	}
	if !s.named {
		return s.up.pointer() + "/" + strconv.Itoa(s.index)
	}
	return s.up.pointer() + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(short(s.key))
}

// short makes a stranger's key or word safe to repeat in a message.
func short(s string) string {
	s = cut(s, 64)
	quoted := strconv.QuoteToGraphic(s)
	return quoted[1 : len(quoted)-1]
}

// report collects violations; nil is a trial that only counts.
type report struct {
	list  []Violation
	count int
}

func (r *report) add(at *step, format string, args ...any) {
	r.count++
	if len(r.list) < maxViolations {
		r.list = append(r.list, Violation{Path: at.pointer(), Message: fmt.Sprintf(format, args...)})
	}
}

// violations lists every way in which v does not fit; nil if it does.
func (s *schema) violations(v canonical.Value) []Violation {
	if s.fits(&v) {
		return nil
	}
	var r report
	s.check(&v, nil, &r)
	if r.list == nil { // fits and check must agree; if ever not, refuse
		r.list = []Violation{{"", "does not fit the schema"}}
	}
	return r.list
}

// fits is the verdict alone, without a word and without allocating.
func (s *schema) fits(v *canonical.Value) bool {
	if s.never || (s.types != 0 && !s.typeFits(v)) || (s.enum != nil && !s.enumFits(v)) {
		return false
	}
	switch v.Kind {
	case canonical.Number:
		if (s.min != nil && v.Num < *s.min) || (s.max != nil && v.Num > *s.max) ||
			(s.above != nil && v.Num <= *s.above) || (s.below != nil && v.Num >= *s.below) {
			return false
		}
	case canonical.String:
		if !s.lengthFits(v.Str) || (s.pattern != nil && !s.pattern.MatchString(v.Str)) {
			return false
		}
	case canonical.Array:
		if len(v.Items) < s.minItems || (s.maxItems >= 0 && len(v.Items) > s.maxItems) ||
			(s.unique && duplicate(v.Items) >= 0) {
			return false
		}
		if s.items != nil {
			for i := range v.Items {
				if !s.items.fits(&v.Items[i]) {
					return false
				}
			}
		}
	case canonical.Object:
		if !s.objectFits(v) {
			return false
		}
	}
	return s.branchesFit(v)
}

func (s *schema) objectFits(v *canonical.Value) bool {
	if len(v.Members) < s.minProps || (s.maxProps >= 0 && len(v.Members) > s.maxProps) {
		return false
	}
	for _, name := range s.required {
		if _, ok := v.Get(name); !ok {
			return false
		}
	}
	for i := range v.Members {
		m := &v.Members[i]
		switch prop, ok := s.props[m.Key]; {
		case ok:
			if !prop.fits(&m.Value) {
				return false
			}
		case s.closed:
			return false
		case s.extra != nil && !s.extra.fits(&m.Value):
			return false
		}
	}
	return true
}

func (s *schema) branchesFit(v *canonical.Value) bool {
	if s.anyOf != nil && matching(s.anyOf, v) == 0 {
		return false
	}
	return s.oneOf == nil || matching(s.oneOf, v) == 1
}

func matching(branches []*schema, v *canonical.Value) int {
	n := 0
	for _, b := range branches {
		if b.fits(v) {
			n++
		}
	}
	return n
}

func (s *schema) typeFits(v *canonical.Value) bool {
	switch v.Kind {
	case canonical.Null:
		return s.types&kindNull != 0
	case canonical.Bool:
		return s.types&kindBool != 0
	case canonical.Number:
		return s.types&kindNumber != 0 || (s.types&kindInteger != 0 && v.Integer())
	case canonical.String:
		return s.types&kindString != 0
	case canonical.Array:
		return s.types&kindArray != 0
	default:
		return s.types&kindObject != 0
	}
}

func (s *schema) enumFits(v *canonical.Value) bool {
	for i := range s.enum {
		if canonical.Equal(s.enum[i], *v) {
			return true
		}
	}
	return false
}

// lengthFits counts characters, as the specification does, but only if the
// bytes leave the matter open.
func (s *schema) lengthFits(str string) bool {
	if s.maxLen < 0 && s.minLen == 0 {
		return true
	}
	if s.maxLen >= 0 && len(str) <= s.maxLen && len(str) >= s.minLen*utf8.UTFMax {
		return true
	}
	n := utf8.RuneCountInString(str)
	return n >= s.minLen && (s.maxLen < 0 || n <= s.maxLen)
}

// duplicate gives the index of the first item that an earlier one equals, or -1.
// Arrays with uniqueItems are short (their maxItems is required).
func duplicate(items []canonical.Value) int {
	for i := range items {
		for j := range i {
			if canonical.Equal(items[i], items[j]) {
				return i
			}
		}
	}
	return -1
}

// patternWords say what a pattern wants where callers often miss it.
var patternWords = map[string]string{
	"^[A-Za-z][A-Za-z0-9+.-]*:": "must begin with a scheme: write http:// or https:// in front",
}

// check names what fits only judged. Messages say what was expected and never
// repeat a value: it may be a secret.
func (s *schema) check(v *canonical.Value, at *step, r *report) {
	switch {
	case s.never:
		r.add(at, "nothing is allowed here")
		return
	case s.types != 0 && !s.typeFits(v):
		r.add(at, "must be %s, not %s", s.types, v.Kind)
		return
	case s.enum != nil && !s.enumFits(v):
		r.add(at, "must be %s", oneOfValues(s.enum))
		return
	}
	switch v.Kind {
	case canonical.Number:
		s.checkNumber(v.Num, at, r)
	case canonical.String:
		switch {
		case s.lengthFits(v.Str):
		case v.Str == "":
			r.add(at, "must not be empty")
		case utf8.RuneCountInString(v.Str) < s.minLen:
			r.add(at, "must have at least %d characters", s.minLen)
		default:
			r.add(at, "must have at most %d characters", s.maxLen)
		}
		if s.pattern != nil && !s.pattern.MatchString(v.Str) {
			if words := patternWords[s.pattern.String()]; words != "" {
				r.add(at, "%s", words)
			} else {
				r.add(at, "must match the pattern %s", s.pattern)
			}
		}
	case canonical.Array:
		s.checkArray(v, at, r)
	case canonical.Object:
		s.checkObject(v, at, r)
	}
	s.checkBranches(v, at, r)
}

func (s *schema) checkNumber(n float64, at *step, r *report) {
	number := func(f *float64) string { return string(canonical.AppendNumber(nil, *f)) }
	if s.min != nil && n < *s.min {
		r.add(at, "must be at least %s", number(s.min))
	}
	if s.max != nil && n > *s.max {
		r.add(at, "must be at most %s", number(s.max))
	}
	if s.above != nil && n <= *s.above {
		r.add(at, "must be more than %s", number(s.above))
	}
	if s.below != nil && n >= *s.below {
		r.add(at, "must be less than %s", number(s.below))
	}
}

func (s *schema) checkArray(v *canonical.Value, at *step, r *report) {
	if len(v.Items) < s.minItems {
		r.add(at, "must have at least %d items", s.minItems)
	}
	if s.maxItems >= 0 && len(v.Items) > s.maxItems {
		r.add(at, "must have at most %d items", s.maxItems)
		return
	}
	if s.unique {
		if i := duplicate(v.Items); i >= 0 {
			r.add(&step{up: at, index: i}, "is given twice")
		}
	}
	if s.items != nil {
		for i := range v.Items {
			if !s.items.fits(&v.Items[i]) {
				s.items.check(&v.Items[i], &step{up: at, index: i}, r)
			}
		}
	}
}

func (s *schema) checkObject(v *canonical.Value, at *step, r *report) {
	if len(v.Members) < s.minProps {
		r.add(at, "must have at least %d fields", s.minProps)
	}
	if s.maxProps >= 0 && len(v.Members) > s.maxProps {
		r.add(at, "must have at most %d fields", s.maxProps)
	}
	for _, name := range s.required {
		if _, ok := v.Get(name); !ok {
			r.add(&step{up: at, key: name, named: true}, "is required%s", s.props[name].choices())
		}
	}
	for i := range v.Members {
		m := &v.Members[i]
		here := &step{up: at, key: m.Key, named: true}
		switch prop, ok := s.props[m.Key]; {
		case ok:
			if !prop.fits(&m.Value) {
				prop.check(&m.Value, here, r)
			}
		case s.closed && len(s.names) == 0:
			r.add(here, "unknown field; there are none")
		case s.closed:
			r.add(here, "unknown field; known: %s", strings.Join(s.names[:min(len(s.names), 24)], ", "))
		case s.extra != nil && !s.extra.fits(&m.Value):
			s.extra.check(&m.Value, here, r)
		}
	}
}

func (s *schema) checkBranches(v *canonical.Value, at *step, r *report) {
	switch {
	case s.anyOf != nil && matching(s.anyOf, v) == 0:
		s.explain(s.anyOf, v, at, r, "give at least one of: ")
	case s.oneOf != nil && matching(s.oneOf, v) != 1:
		if matching(s.oneOf, v) > 1 && s.alternatives == nil {
			r.add(at, "fits more than one of the allowed forms")
			return
		}
		s.explain(s.oneOf, v, at, r, "give exactly one of: ")
	}
}

// explain says what no branch took: the missing fields, or what is wrong with
// the branch that the value came nearest to.
func (s *schema) explain(branches []*schema, v *canonical.Value, at *step, r *report, lead string) {
	if s.alternatives != nil {
		r.add(at, "%s%s", lead, strings.Join(s.alternatives, ", "))
		return
	}
	var best *report
	for _, b := range branches {
		trial := &report{}
		b.check(v, at, trial)
		trial.count += 100 * b.missesTag(v)
		if best == nil || trial.count < best.count {
			best = trial
		}
	}
	if best.count >= 100 || len(best.list) == 0 {
		r.add(at, "must be one of the allowed forms: %s", forms(branches))
		return
	}
	for _, bad := range best.list {
		r.count++
		if len(r.list) < maxViolations {
			r.list = append(r.list, bad)
		}
	}
}

// missesTag is 1 if v can not be meant as this branch: another type, or another
// value in a field with one fixed value (the tag of a union, such as "kind").
func (s *schema) missesTag(v *canonical.Value) int {
	if (s.types != 0 && !s.typeFits(v)) || (s.enum != nil && !s.enumFits(v)) {
		return 1
	}
	for name, prop := range s.props {
		if len(prop.enum) == 1 {
			if got, ok := v.Get(name); !ok || !prop.enumFits(&got) {
				return 1
			}
		}
	}
	return 0
}

// forms describes branches in few words: {"kind":"ref"}, "primary", an object.
func forms(branches []*schema) string {
	words := make([]string, 0, len(branches))
	for _, b := range branches {
		word := b.types.String()
		switch {
		case b.enum != nil:
			word = oneOfValues(b.enum)
		case b.types == kindObject && len(b.required) > 0:
			word = "an object with " + strings.Join(b.required, ", ")
			for _, name := range b.names {
				if tag := b.props[name].enum; len(tag) == 1 {
					word = fmt.Sprintf(`{%q:%s, …}`, name, tag[0].Append(nil))
				}
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, ", or ")
}

// choices says what a value may be where the schema lists it: `; give one of "a", "b"`.
func (s *schema) choices() string {
	switch {
	case s == nil:
	case s.enum != nil:
		return "; give " + oneOfValues(s.enum)
	case s.anyOf != nil:
		return "; give " + forms(s.anyOf)
	}
	return ""
}

func oneOfValues(values []canonical.Value) string {
	words := make([]string, 0, len(values))
	for _, v := range values[:min(len(values), 24)] {
		words = append(words, string(v.Append(nil)))
	}
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}

// String gives "a string", "an integer or null".
func (k kinds) String() string {
	var words []string
	for _, name := range []string{"object", "array", "string", "integer", "number", "boolean", "null"} {
		if k&kindByName[name] == 0 {
			continue
		}
		article := "a "
		if slices.Contains([]string{"object", "array", "integer"}, name) {
			article = "an "
		}
		if name == "null" {
			article = ""
		}
		words = append(words, article+name)
	}
	if len(words) == 0 {
		return "any value"
	}
	return strings.Join(words, " or ")
}
