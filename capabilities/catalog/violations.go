package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// The library says what is wrong by kinds; the words are ours, because its own repeat
// values, and a value may be a secret.

// violations lists every way in which v does not fit, at most maxViolations; nil if it does.
func (s *schema) violations(v canonical.Value) []Violation {
	if lengthy(&v) {
		v = s.shortened(v, s.root)
	}
	err := s.root.Validate(v.Interface())
	if err == nil {
		return nil
	}
	var bad *jsonschema.ValidationError
	w := wording{schema: s}
	if errors.As(err, &bad) {
		w.tell(bad)
	}
	list := w.violations()
	if len(list) == 0 { // a kind without words
		list = []Violation{{"", "does not fit the schema"}}
	}
	return list
}

// maxList is how many values of a list or object are handed to the library whatever the
// schema says: it makes an error for each that does not fit.
const maxList = 256

func lengthy(v *canonical.Value) bool {
	if len(v.Items) > maxList || len(v.Members) > maxList {
		return true
	}
	for i := range v.Items {
		if lengthy(&v.Items[i]) {
			return true
		}
	}
	for i := range v.Members {
		if lengthy(&v.Members[i].Value) {
			return true
		}
	}
	return false
}

// shortened cuts lists and open objects that are longer than any of the schemas takes to one
// more than that: the verdict is the same.
func (s *schema) shortened(v canonical.Value, by ...*jsonschema.Schema) canonical.Value {
	by = alike(by)
	switch v.Kind {
	case canonical.Array:
		most, items := maxList, []*jsonschema.Schema{}
		for _, n := range by {
			if n.MaxItems != nil {
				most = max(most, *n.MaxItems)
			}
			if n.Items2020 != nil {
				items = append(items, n.Items2020)
			}
		}
		if len(items) == 0 { // nothing looks at what is in it
			return v
		}
		v.Items = slices.Clone(v.Items[:min(len(v.Items), most+1)])
		for i := range v.Items {
			v.Items[i] = s.shortened(v.Items[i], items...)
		}
	case canonical.Object:
		most, open := maxList, len(by) > 0
		for _, n := range by {
			if n.MaxProperties != nil {
				most = max(most, *n.MaxProperties)
			}
			_, extra := n.AdditionalProperties.(*jsonschema.Schema)
			open = open && extra
		}
		if open {
			v.Members = v.Members[:min(len(v.Members), most+1)]
		}
		v.Members = slices.Clone(v.Members)
		for i := range v.Members {
			var inner []*jsonschema.Schema
			for _, n := range by {
				if prop, ok := n.Properties[v.Members[i].Key]; ok {
					inner = append(inner, prop)
				} else if extra, ok := n.AdditionalProperties.(*jsonschema.Schema); ok {
					inner = append(inner, extra)
				}
			}
			v.Members[i].Value = s.shortened(v.Members[i].Value, inner...)
		}
	}
	return v
}

// alike lists schemas with those that say more of the same value.
func alike(list []*jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Clone(list)
	for i := 0; i < len(all); i++ {
		for _, more := range append(append([]*jsonschema.Schema{all[i].Ref}, all[i].AnyOf...), all[i].OneOf...) {
			if more != nil && !slices.Contains(all, more) {
				all = append(all, more)
			}
		}
	}
	return all
}

// finding is one violation before it is sorted.
type finding struct {
	path    []string
	missing bool // it is about a field that is not there
	text    string
}

// wording puts the library's findings into words.
type wording struct {
	schema *schema
	list   []finding
	long   [][]string // lists with too many items, whose items are not looked at
}

func (w *wording) add(path []string, format string, args ...any) {
	w.list = append(w.list, finding{path: path, text: fmt.Sprintf(format, args...)})
}

// violations is what was found, in the order of the value, what is missing first.
func (w *wording) violations() []Violation {
	w.list = slices.DeleteFunc(w.list, func(f finding) bool {
		return slices.ContainsFunc(w.long, func(p []string) bool { return len(f.path) > len(p) && slices.Equal(f.path[:len(p)], p) })
	})
	slices.SortStableFunc(w.list, before)
	list := make([]Violation, 0, min(len(w.list), maxViolations))
	for _, f := range w.list[:min(len(w.list), maxViolations)] {
		list = append(list, Violation{Path: pointer(f.path), Message: f.text})
	}
	return list
}

func before(a, b finding) int {
	for i := range min(len(a.path), len(b.path)) {
		x, y := a.path[i], b.path[i]
		if x == y {
			continue
		}
		first, second := a.missing && i == len(a.path)-1, b.missing && i == len(b.path)-1
		switch {
		case first && second:
			return 0 // as the schema lists them
		case first:
			return -1
		case second:
			return 1
		}
		m, errX := strconv.Atoi(x)
		n, errY := strconv.Atoi(y)
		if errX == nil && errY == nil {
			return cmp.Compare(m, n)
		}
		return cmp.Compare(x, y)
	}
	return cmp.Compare(len(a.path), len(b.path))
}

func pointer(path []string) string {
	var b strings.Builder
	for _, key := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(short(key)))
	}
	return b.String()
}

// short makes a stranger's key or word safe to repeat in a message.
func short(s string) string {
	s = capabilities.First(s, 64)
	quoted := strconv.QuoteToGraphic(s)
	return quoted[1 : len(quoted)-1]
}

// patternWords say what a pattern wants where callers often miss it.
var patternWords = map[string]string{
	"^[A-Za-z][A-Za-z0-9+.-]*:": "must begin with a scheme: write http:// or https:// in front",
}

// tell names what e found.
func (w *wording) tell(e *jsonschema.ValidationError) {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference:
		for _, cause := range e.Causes {
			w.tell(cause)
		}
	case *kind.FalseSchema:
		w.add(at, "nothing is allowed here")
	case *kind.Type:
		w.add(at, "must be %s, not %s", typeWords(k.Want), k.Got)
	case *kind.Enum:
		w.add(at, "must be %s", oneOfValues(k.Want))
	case *kind.Const:
		w.add(at, "must be %s", oneOfValues([]any{k.Want}))
	case *kind.Minimum:
		w.add(at, "must be at least %s", number(k.Want))
	case *kind.Maximum:
		w.add(at, "must be at most %s", number(k.Want))
	case *kind.ExclusiveMinimum:
		w.add(at, "must be more than %s", number(k.Want))
	case *kind.ExclusiveMaximum:
		w.add(at, "must be less than %s", number(k.Want))
	case *kind.MinLength:
		if k.Got == 0 {
			w.add(at, "must not be empty")
		} else {
			w.add(at, "must have at least %d characters", k.Want)
		}
	case *kind.MaxLength:
		w.add(at, "must have at most %d characters", k.Want)
	case *kind.Pattern:
		w.add(at, "%s", cmp.Or(patternWords[k.Want], "must match the pattern "+k.Want))
	case *kind.MinItems:
		w.add(at, "must have at least %d items", k.Want)
	case *kind.MaxItems:
		w.add(at, "must have at most %d items", k.Want)
		w.long = append(w.long, at)
	case *kind.UniqueItems:
		w.add(below(at, strconv.Itoa(max(k.Duplicates[0], k.Duplicates[1]))), "is given twice")
	case *kind.MinProperties:
		w.add(at, "must have at least %d fields", k.Want)
	case *kind.MaxProperties:
		w.add(at, "must have at most %d fields", k.Want)
	case *kind.Required:
		for _, name := range k.Missing {
			w.add(below(at, name), "is required%s", choices(w.schema.at[e.SchemaURL].Properties[name]))
			w.list[len(w.list)-1].missing = true
		}
	case *kind.AdditionalProperties:
		w.unknown(e, k.Properties)
	case *kind.AnyOf:
		w.explain(e, w.schema.at[e.SchemaURL].AnyOf, "give at least one of: ")
	case *kind.OneOf:
		branches := w.schema.at[e.SchemaURL].OneOf
		if len(k.Subschemas) > 0 && alternatives(branches) == nil {
			w.add(at, "fits more than one of the allowed forms")
			return
		}
		w.explain(e, branches, "give exactly one of: ")
	default:
		w.add(at, "does not fit the schema")
	}
}

func below(path []string, key string) []string { return append(slices.Clone(path), key) }

func number(n *big.Rat) string {
	f, _ := n.Float64()
	return string(canonical.AppendNumber(nil, f))
}

// unknown names fields that a closed object does not have.
func (w *wording) unknown(e *jsonschema.ValidationError, fields []string) {
	text := "unknown field; there are none"
	if known := names(w.schema.at[e.SchemaURL]); len(known) > 0 {
		text = "unknown field; known: " + strings.Join(known[:min(len(known), 24)], ", ")
	}
	slices.Sort(fields)
	for _, name := range fields[:min(len(fields), maxViolations)] {
		w.add(below(e.InstanceLocation, name), "%s", text)
	}
}

// names lists an object's fields, sorted.
func names(n *jsonschema.Schema) []string {
	list := make([]string, 0, len(n.Properties))
	for name := range n.Properties {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// alternatives are the fields of branches that each only require some, such as "ref" and
// "selector"; nil for others.
func alternatives(branches []*jsonschema.Schema) []string {
	var list []string
	for _, b := range branches {
		if len(b.Required) == 0 || b.Types != nil && !b.Types.IsEmpty() || len(b.Properties) > 0 || b.AdditionalProperties != nil ||
			b.Ref != nil ||
			values(b) != nil || len(b.AnyOf) > 0 || len(b.OneOf) > 0 {
			return nil
		}
		list = append(list, strings.Join(b.Required, " with "))
	}
	return list
}

// explain says what no branch took: the missing fields, or what is wrong with the branch
// that the value came nearest to.
func (w *wording) explain(e *jsonschema.ValidationError, branches []*jsonschema.Schema, lead string) {
	if fields := alternatives(branches); fields != nil {
		w.add(e.InstanceLocation, "%s%s", lead, strings.Join(fields, ", "))
		return
	}
	var best *wording
	least := 100
	for i, cause := range e.Causes {
		trial := &wording{schema: w.schema}
		trial.tell(cause)
		if n := len(trial.list); n > 0 && n < least && !missesTag(cause, resolved(branches[i]), len(e.InstanceLocation)) {
			best, least = trial, n
		}
	}
	if best == nil {
		w.add(e.InstanceLocation, "must be one of the allowed forms: %s", forms(branches))
		return
	}
	w.list, w.long = append(w.list, best.list...), append(w.long, best.long...)
}

// resolved follows a reference.
func resolved(n *jsonschema.Schema) *jsonschema.Schema {
	for n.Ref != nil {
		n = n.Ref
	}
	return n
}

// missesTag reports whether a value cannot be meant as this branch, by what was found at
// depth: another type, or another value in a field with one fixed value (the tag of a
// union, such as "kind").
func missesTag(e *jsonschema.ValidationError, branch *jsonschema.Schema, depth int) bool {
	at := len(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference:
		return slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool { return missesTag(c, branch, depth) })
	case *kind.Type:
		return at == depth || at == depth+1 && isTag(branch, e.InstanceLocation[depth])
	case *kind.Enum, *kind.Const:
		return at == depth || at == depth+1 && isTag(branch, e.InstanceLocation[depth])
	case *kind.Required:
		return at == depth && slices.ContainsFunc(k.Missing, func(name string) bool { return isTag(branch, name) })
	}
	return false
}

func isTag(branch *jsonschema.Schema, name string) bool {
	prop := branch.Properties[name]
	return prop != nil && len(values(prop)) == 1
}

// values are those that a schema lists; nil: it lists none.
func values(n *jsonschema.Schema) []any {
	switch {
	case n.Enum != nil:
		return n.Enum.Values
	case n.Const != nil:
		return []any{*n.Const}
	}
	return nil
}

// forms describes branches in few words: {"kind":"ref"}, "primary", an object.
func forms(branches []*jsonschema.Schema) string {
	words := make([]string, 0, len(branches))
	for _, b := range branches {
		b = resolved(b)
		var types []string
		if b.Types != nil {
			types = b.Types.ToStrings()
		}
		word := typeWords(types)
		switch {
		case values(b) != nil:
			word = oneOfValues(values(b))
		case slices.Equal(types, []string{"object"}) && len(b.Required) > 0:
			word = "an object with " + strings.Join(b.Required, ", ")
			for _, name := range names(b) {
				if isTag(b, name) {
					word = fmt.Sprintf(`{%q:%s, …}`, name, oneOfValues(values(b.Properties[name])))
				}
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, ", or ")
}

// choices says what a value may be where the schema lists it: `; give one of "a", "b"`.
func choices(n *jsonschema.Schema) string {
	switch {
	case n == nil:
	case values(n) != nil:
		return "; give " + oneOfValues(values(n))
	case len(n.AnyOf) > 0:
		return "; give " + forms(n.AnyOf)
	}
	return ""
}

func oneOfValues(list []any) string {
	words := make([]string, 0, len(list))
	for _, v := range list[:min(len(list), 24)] {
		text, err := canonical.Marshal(v)
		if err != nil {
			text = []byte("another value")
		}
		words = append(words, string(text))
	}
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}

// typeWords returns "a string", "an integer or null".
func typeWords(types []string) string {
	var words []string
	for _, name := range typeNames {
		switch {
		case !slices.Contains(types, name):
		case name == "null":
			words = append(words, name)
		case slices.Contains([]string{"object", "array", "integer"}, name):
			words = append(words, "an "+name)
		default:
			words = append(words, "a "+name)
		}
	}
	if len(words) == 0 {
		return "any value"
	}
	return strings.Join(words, " or ")
}
