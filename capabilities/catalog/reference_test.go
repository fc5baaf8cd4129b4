package catalog

// The validator that was here, as the reference that the library is compared with. It
// goes once that was done.

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// oldKinds is a set of JSON types.
type oldKinds uint8

const (
	oldKindNull oldKinds = 1 << iota
	oldKindBool
	oldKindNumber
	oldKindInteger
	oldKindString
	oldKindArray
	oldKindObject
)

var oldKindByName = map[string]oldKinds{
	"null": oldKindNull, "boolean": oldKindBool, "number": oldKindNumber, "integer": oldKindInteger,
	"string": oldKindString, "array": oldKindArray, "object": oldKindObject,
}

// schema is one compiled schema. A zero bound pointer means "no bound".
type oldSchema struct {
	never bool // the schema false
	types oldKinds

	enum    []canonical.Value // also const
	min     *float64
	max     *float64
	above   *float64 // exclusiveMinimum
	below   *float64 // exclusiveMaximum
	minLen  int
	maxLen  int // -1: none
	pattern *regexp.Regexp

	items    *oldSchema
	minItems int
	maxItems int // -1: none
	unique   bool

	names    []string // properties, sorted, for messages
	props    map[string]*oldSchema
	required []string
	closed   bool // additionalProperties: false
	extra    *oldSchema
	minProps int
	maxProps int // -1: none

	anyOf []*oldSchema
	oneOf []*oldSchema
	// alternatives is the fields of an anyOf or oneOf whose branches each only
	// require some, such as "ref" and "selector".
	alternatives []string
}

// oldCompiler turns schema documents into schemas. Results may be open in one way
// that inputs may not: {"description": …} without a type admits anything, which
// a script's result needs.
type oldCompiler struct {
	defs   map[string]*oldSchema
	forAny bool
}

// oldCompileSchema compiles a root object schema with its "$defs".
func oldCompileSchema(doc canonical.Value, allowAny bool) (*oldSchema, error) {
	c := &oldCompiler{defs: map[string]*oldSchema{}, forAny: allowAny}
	if defs, ok := doc.Get("$defs"); ok {
		for _, def := range defs.Members {
			c.defs[def.Key] = &oldSchema{}
		}
		for _, def := range defs.Members {
			if _, isRef := def.Value.Get("$ref"); isRef {
				return nil, fmt.Errorf("$defs/%s is a bare reference", def.Key)
			}
			compiled, err := c.compile(def.Value, "$defs/"+def.Key, false)
			if err != nil {
				return nil, err
			}
			*c.defs[def.Key] = *compiled
		}
	}
	root, err := c.compile(doc, "", false)
	if err != nil {
		return nil, err
	}
	if root.types != oldKindObject {
		return nil, fmt.Errorf(`the root must have "type":"object"`)
	}
	return root, nil
}

// compile compiles one schema; branch is true inside anyOf and oneOf, where a
// schema may narrow its parent without saying everything again.
func (c *oldCompiler) compile(doc canonical.Value, at string, branch bool) (*oldSchema, error) {
	s := &oldSchema{maxLen: -1, maxItems: -1, maxProps: -1}
	if doc.Kind == canonical.Bool {
		if doc.True && !c.forAny {
			return nil, fmt.Errorf("%s: the schema true admits anything", at)
		}
		s.never = !doc.True
		return s, nil
	}
	if doc.Kind != canonical.Object {
		return nil, fmt.Errorf("%s: a schema is an object or a boolean", at)
	}
	if ref, ok := doc.Get("$ref"); ok {
		return c.ref(doc, ref, at)
	}
	for _, m := range doc.Members {
		if err := c.keyword(s, m.Key, m.Value, at); err != nil {
			return nil, err
		}
	}
	if err := c.bounded(s, at, branch); err != nil {
		return nil, err
	}
	if def, ok := doc.Get("default"); ok {
		if bad := s.violations(def); bad != nil {
			return nil, fmt.Errorf("%s: the default does not fit: %s", at, bad[0].Message)
		}
	}
	return s, nil
}

func (c *oldCompiler) ref(doc, ref canonical.Value, at string) (*oldSchema, error) {
	for _, m := range doc.Members {
		if m.Key != "$ref" && m.Key != "description" {
			return nil, fmt.Errorf("%s: %q beside $ref", at, m.Key)
		}
	}
	target, ok := c.defs[strings.TrimPrefix(ref.Str, "#/$defs/")]
	if !ok {
		return nil, fmt.Errorf("%s: $ref %q leads nowhere", at, ref.Str)
	}
	return target, nil
}

// bounded refuses what would let a caller send or get without end.
func (c *oldCompiler) bounded(s *oldSchema, at string, branch bool) error {
	open := s.types == 0 && s.enum == nil && s.anyOf == nil && s.oneOf == nil && !s.never
	switch {
	case branch && open: // it only narrows its parent
		return nil
	case open && !c.forAny:
		return fmt.Errorf("%s: says nothing about the value", at)
	case s.types&oldKindString != 0 && s.maxLen < 0 && s.enum == nil:
		return fmt.Errorf("%s: a string without maxLength", at)
	case s.types&oldKindArray != 0 && (s.maxItems < 0 || s.items == nil):
		return fmt.Errorf("%s: an array without maxItems or items", at)
	case s.unique && s.maxItems > 256: // compared pairwise
		return fmt.Errorf("%s: uniqueItems over more than 256 items", at)
	case s.types&oldKindObject != 0 && !s.closed && !(s.extra != nil && s.maxProps >= 0):
		return fmt.Errorf("%s: an object without additionalProperties:false", at)
	}
	return nil
}

func (c *oldCompiler) keyword(s *oldSchema, key string, v canonical.Value, at string) error {
	wrong := func(want string) error { return fmt.Errorf("%s: %s must be %s", at, key, want) }
	var err error
	switch key {
	case "$defs", "$schema", "$comment", "title", "description", "default", "examples", "format", "contentEncoding":
		// annotations, and what oldCompileSchema has read already
	case "type":
		names := v.Items
		if v.Kind == canonical.String {
			names = []canonical.Value{v}
		}
		for _, name := range names {
			kind, ok := oldKindByName[name.Str]
			if !ok {
				return wrong("a JSON type")
			}
			s.types |= kind
		}
		if s.types == 0 {
			return wrong("a JSON type")
		}
	case "enum":
		if v.Kind != canonical.Array || len(v.Items) == 0 {
			return wrong("a list")
		}
		s.enum = v.Items
	case "const":
		s.enum = []canonical.Value{v}
	case "minimum":
		s.min, err = oldBound(v)
	case "maximum":
		s.max, err = oldBound(v)
	case "exclusiveMinimum":
		s.above, err = oldBound(v)
	case "exclusiveMaximum":
		s.below, err = oldBound(v)
	case "minLength":
		s.minLen, err = oldCount(v)
	case "maxLength":
		s.maxLen, err = oldCount(v)
	case "minItems":
		s.minItems, err = oldCount(v)
	case "maxItems":
		s.maxItems, err = oldCount(v)
	case "minProperties":
		s.minProps, err = oldCount(v)
	case "maxProperties":
		s.maxProps, err = oldCount(v)
	case "pattern":
		s.pattern, err = regexp.Compile(v.Str)
	case "uniqueItems":
		s.unique = v.True
	case "items":
		s.items, err = c.compile(v, at+"/items", false)
	case "properties":
		s.props = make(map[string]*oldSchema, len(v.Members))
		for _, m := range v.Members {
			if s.props[m.Key], err = c.compile(m.Value, at+"/"+m.Key, false); err != nil {
				return err
			}
			s.names = append(s.names, m.Key)
		}
	case "additionalProperties":
		if v.Kind == canonical.Bool && !v.True {
			s.closed = true
			return nil
		}
		s.extra, err = c.compile(v, at+"/additionalProperties", false)
	case "required":
		s.required, err = oldStringList(v)
	case "anyOf":
		s.anyOf, err = c.branches(s, v, at+"/anyOf")
	case "oneOf":
		s.oneOf, err = c.branches(s, v, at+"/oneOf")
	default:
		return fmt.Errorf("%s: the keyword %q is not supported", at, key)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", at, key, err)
	}
	return nil
}

func (c *oldCompiler) branches(s *oldSchema, v canonical.Value, at string) ([]*oldSchema, error) {
	if v.Kind != canonical.Array || len(v.Items) == 0 {
		return nil, fmt.Errorf("a list of schemas was expected")
	}
	list := make([]*oldSchema, 0, len(v.Items))
	for i, item := range v.Items {
		b, err := c.compile(item, fmt.Sprintf("%s/%d", at, i), true)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
		if req, ok := item.Get("required"); ok && len(item.Members) == 1 && len(req.Items) > 0 {
			s.alternatives = append(s.alternatives, strings.Join(b.required, " with "))
		}
	}
	if len(s.alternatives) != len(list) {
		s.alternatives = nil
	}
	return list, nil
}

func oldBound(v canonical.Value) (*float64, error) {
	if v.Kind != canonical.Number {
		return nil, fmt.Errorf("a number was expected")
	}
	return &v.Num, nil
}

func oldCount(v canonical.Value) (int, error) {
	if v.Kind != canonical.Number || v.Num < 0 || v.Num > math.MaxInt32 || !v.Integer() {
		return 0, fmt.Errorf("a count was expected")
	}
	return int(v.Num), nil
}

func oldStringList(v canonical.Value) ([]string, error) {
	if v.Kind != canonical.Array {
		return nil, fmt.Errorf("a list of strings was expected")
	}
	list := make([]string, 0, len(v.Items))
	for _, item := range v.Items {
		if item.Kind != canonical.String {
			return nil, fmt.Errorf("a list of strings was expected")
		}
		list = append(list, item.Str)
	}
	return list, nil
}

// oldStep is one link of the path to the value under check; it lives on the stack.
type oldStep struct {
	up    *oldStep
	key   string
	index int // used if key is ""
	named bool
}

func (s *oldStep) pointer() string {
	if s == nil {
		return ""
	}
	if !s.named {
		return s.up.pointer() + "/" + strconv.Itoa(s.index)
	}
	return s.up.pointer() + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(oldShort(s.key))
}

// oldShort makes a stranger's key or word safe to repeat in a message.
func oldShort(s string) string {
	s = cut(s, 64)
	quoted := strconv.QuoteToGraphic(s)
	return quoted[1 : len(quoted)-1]
}

// oldReport collects violations; nil is a trial that only counts.
type oldReport struct {
	list  []Violation
	count int
}

func (r *oldReport) add(at *oldStep, format string, args ...any) {
	r.count++
	if len(r.list) < maxViolations {
		r.list = append(r.list, Violation{Path: at.pointer(), Message: fmt.Sprintf(format, args...)})
	}
}

// violations lists every way in which v does not fit; nil if it does.
func (s *oldSchema) violations(v canonical.Value) []Violation {
	if s.fits(&v) {
		return nil
	}
	var r oldReport
	s.check(&v, nil, &r)
	if r.list == nil { // fits and check must agree; if ever not, refuse
		r.list = []Violation{{"", "does not fit the schema"}}
	}
	return r.list
}

// fits is the verdict alone, without a word and without allocating.
func (s *oldSchema) fits(v *canonical.Value) bool {
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
			(s.unique && oldDuplicate(v.Items) >= 0) {
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

func (s *oldSchema) objectFits(v *canonical.Value) bool {
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

func (s *oldSchema) branchesFit(v *canonical.Value) bool {
	if s.anyOf != nil && oldMatching(s.anyOf, v) == 0 {
		return false
	}
	return s.oneOf == nil || oldMatching(s.oneOf, v) == 1
}

func oldMatching(branches []*oldSchema, v *canonical.Value) int {
	n := 0
	for _, b := range branches {
		if b.fits(v) {
			n++
		}
	}
	return n
}

func (s *oldSchema) typeFits(v *canonical.Value) bool {
	switch v.Kind {
	case canonical.Null:
		return s.types&oldKindNull != 0
	case canonical.Bool:
		return s.types&oldKindBool != 0
	case canonical.Number:
		return s.types&oldKindNumber != 0 || (s.types&oldKindInteger != 0 && v.Integer())
	case canonical.String:
		return s.types&oldKindString != 0
	case canonical.Array:
		return s.types&oldKindArray != 0
	default:
		return s.types&oldKindObject != 0
	}
}

func (s *oldSchema) enumFits(v *canonical.Value) bool {
	for i := range s.enum {
		if canonical.Equal(s.enum[i], *v) {
			return true
		}
	}
	return false
}

// lengthFits counts characters, as the specification does, but only if the
// bytes leave the matter open.
func (s *oldSchema) lengthFits(str string) bool {
	if s.maxLen < 0 && s.minLen == 0 {
		return true
	}
	if s.maxLen >= 0 && len(str) <= s.maxLen && len(str) >= s.minLen*utf8.UTFMax {
		return true
	}
	n := utf8.RuneCountInString(str)
	return n >= s.minLen && (s.maxLen < 0 || n <= s.maxLen)
}

// oldDuplicate gives the index of the first item that an earlier one equals, or -1.
// Arrays with uniqueItems are oldShort (their maxItems is required).
func oldDuplicate(items []canonical.Value) int {
	for i := range items {
		for j := range i {
			if canonical.Equal(items[i], items[j]) {
				return i
			}
		}
	}
	return -1
}

// oldPatternWords say what a pattern wants where callers often miss it.
var oldPatternWords = map[string]string{
	"^[A-Za-z][A-Za-z0-9+.-]*:": "must begin with a scheme: write http:// or https:// in front",
}

// check names what fits only judged. Messages say what was expected and never
// repeat a value: it may be a secret.
func (s *oldSchema) check(v *canonical.Value, at *oldStep, r *oldReport) {
	switch {
	case s.never:
		r.add(at, "nothing is allowed here")
		return
	case s.types != 0 && !s.typeFits(v):
		r.add(at, "must be %s, not %s", s.types, v.Kind)
		return
	case s.enum != nil && !s.enumFits(v):
		r.add(at, "must be %s", oldOneOfValues(s.enum))
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
			if words := oldPatternWords[s.pattern.String()]; words != "" {
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

func (s *oldSchema) checkNumber(n float64, at *oldStep, r *oldReport) {
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

func (s *oldSchema) checkArray(v *canonical.Value, at *oldStep, r *oldReport) {
	if len(v.Items) < s.minItems {
		r.add(at, "must have at least %d items", s.minItems)
	}
	if s.maxItems >= 0 && len(v.Items) > s.maxItems {
		r.add(at, "must have at most %d items", s.maxItems)
		return
	}
	if s.unique {
		if i := oldDuplicate(v.Items); i >= 0 {
			r.add(&oldStep{up: at, index: i}, "is given twice")
		}
	}
	if s.items != nil {
		for i := range v.Items {
			if !s.items.fits(&v.Items[i]) {
				s.items.check(&v.Items[i], &oldStep{up: at, index: i}, r)
			}
		}
	}
}

func (s *oldSchema) checkObject(v *canonical.Value, at *oldStep, r *oldReport) {
	if len(v.Members) < s.minProps {
		r.add(at, "must have at least %d fields", s.minProps)
	}
	if s.maxProps >= 0 && len(v.Members) > s.maxProps {
		r.add(at, "must have at most %d fields", s.maxProps)
	}
	for _, name := range s.required {
		if _, ok := v.Get(name); !ok {
			r.add(&oldStep{up: at, key: name, named: true}, "is required%s", s.props[name].choices())
		}
	}
	for i := range v.Members {
		m := &v.Members[i]
		here := &oldStep{up: at, key: m.Key, named: true}
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

func (s *oldSchema) checkBranches(v *canonical.Value, at *oldStep, r *oldReport) {
	switch {
	case s.anyOf != nil && oldMatching(s.anyOf, v) == 0:
		s.explain(s.anyOf, v, at, r, "give at least one of: ")
	case s.oneOf != nil && oldMatching(s.oneOf, v) != 1:
		if oldMatching(s.oneOf, v) > 1 && s.alternatives == nil {
			r.add(at, "fits more than one of the allowed forms")
			return
		}
		s.explain(s.oneOf, v, at, r, "give exactly one of: ")
	}
}

// explain says what no branch took: the missing fields, or what is wrong with
// the branch that the value came nearest to.
func (s *oldSchema) explain(branches []*oldSchema, v *canonical.Value, at *oldStep, r *oldReport, lead string) {
	if s.alternatives != nil {
		r.add(at, "%s%s", lead, strings.Join(s.alternatives, ", "))
		return
	}
	var best *oldReport
	for _, b := range branches {
		trial := &oldReport{}
		b.check(v, at, trial)
		trial.count += 100 * b.missesTag(v)
		if best == nil || trial.count < best.count {
			best = trial
		}
	}
	if best.count >= 100 || len(best.list) == 0 {
		r.add(at, "must be one of the allowed forms: %s", oldForms(branches))
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
func (s *oldSchema) missesTag(v *canonical.Value) int {
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

// oldForms describes branches in few words: {"kind":"ref"}, "primary", an object.
func oldForms(branches []*oldSchema) string {
	words := make([]string, 0, len(branches))
	for _, b := range branches {
		word := b.types.String()
		switch {
		case b.enum != nil:
			word = oldOneOfValues(b.enum)
		case b.types == oldKindObject && len(b.required) > 0:
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
func (s *oldSchema) choices() string {
	switch {
	case s == nil:
	case s.enum != nil:
		return "; give " + oldOneOfValues(s.enum)
	case s.anyOf != nil:
		return "; give " + oldForms(s.anyOf)
	}
	return ""
}

func oldOneOfValues(values []canonical.Value) string {
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
func (k oldKinds) String() string {
	var words []string
	for _, name := range []string{"object", "array", "string", "integer", "number", "boolean", "null"} {
		if k&oldKindByName[name] == 0 {
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

// What the library finds is what was found here, in the same words and order.
func TestFindingsAreThoseOfBefore(t *testing.T) {
	n, differ := 0, 0
	compare := func(name string, doc []byte, s *schema, open bool) {
		v, err := canonical.Decode(doc, canonical.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		old, err := oldCompileSchema(v, open)
		if err != nil {
			t.Fatal(err)
		}
		var plain map[string]any
		if err := json.Unmarshal(doc, &plain); err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			text, err := json.Marshal(near(t, plain, plain, 4))
			if err != nil {
				t.Fatal(err)
			}
			v, err := canonical.Decode(text, canonical.Limits{MaxBytes: 64 << 20, MaxValues: 1 << 20, Foreign: true})
			if err != nil {
				t.Fatal(err)
			}
			n++
			was, now := old.violations(v), s.violations(v)
			if len(was) >= maxViolations && len(now) >= maxViolations {
				return // which of them is left out may differ
			}
			slices.SortFunc(was, func(a, b Violation) int { return strings.Compare(a.Path+a.Message, b.Path+b.Message) })
			slices.SortFunc(now, func(a, b Violation) int { return strings.Compare(a.Path+a.Message, b.Path+b.Message) })
			if !slices.Equal(was, now) {
				differ++
				if differ < 12 {
					t.Logf("%s %.300s\n was %q\n now %q", name, text, was, now)
				}
			}
		})
	}
	for _, d := range embeddedCatalog(t).All() {
		input, result, err := d.validators()
		if err != nil {
			t.Fatal(err)
		}
		compare(string(d.Tool)+" input", d.FullInput(true), input, false)
		compare(string(d.Tool)+" result", d.Result, result, true)
	}
	t.Logf("%d compared, %d differ", n, differ)
	if differ > 0 {
		t.Errorf("%d of %d differ", differ, n)
	}
}
