package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Arguments and results are validated by santhosh-tekuri/jsonschema (S4-11), which names every
// violation with its path. A schema of the catalog may be less than the standard's: a keyword that
// is not listed here, or a value without a bound, is a load error, so that no caller can send or
// get without end.

// schema is one compiled schema.
type schema struct {
	root *jsonschema.Schema
	at   map[string]*jsonschema.Schema // every schema in it, by its location
}

// valueKind is what the value of a keyword has to be. Without fits only compiling can judge it.
type valueKind struct {
	words string
	fits  func(canonical.Value) bool
}

var (
	unjudged = valueKind{}
	anyValue = valueKind{"any value", func(canonical.Value) bool { return true }}
	someText = valueKind{"a string", func(v canonical.Value) bool { return v.Kind == canonical.String }}
	someList = valueKind{"a list", func(v canonical.Value) bool { return v.Kind == canonical.Array }}
	yesOrNo  = valueKind{"true or false", func(v canonical.Value) bool { return v.Kind == canonical.Bool }}
	aNumber  = valueKind{"a number", func(v canonical.Value) bool { return v.Kind == canonical.Number }}
	aCount   = valueKind{"a length", func(v canonical.Value) bool { return v.Integer() && v.Num >= 0 && v.Num <= maxCount }}
	someName = valueKind{"a list of different names", isNames}
	someType = valueKind{"one or several types", isType}
)

// scalars are the keywords without schemas in them that a schema may have. Some only describe;
// contentEncoding and format are not asserted.
var scalars = map[string]valueKind{
	"$schema": unjudged, "default": unjudged, "pattern": unjudged,
	"$comment": someText, "title": someText, "description": someText, "format": someText, "contentEncoding": someText, Personal: someText,
	"examples": someList, "const": anyValue, "type": someType, "required": someName, "uniqueItems": yesOrNo, "minimum": aNumber,
	"maximum": aNumber, "exclusiveMinimum": aNumber, "exclusiveMaximum": aNumber, "minLength": aCount, "maxLength": aCount, "minItems": aCount,
	"maxItems": aCount, "minProperties": aCount, "maxProperties": aCount,
}

// Personal is the keyword of fields that hold something personal; its value says what, such as
// "name". It describes: what is done about it is the masking's.
const Personal = "x-personal"

// maxCount is the largest bound of a length.
const maxCount = 1 << 31

// isNames reports whether v lists different texts.
func isNames(v canonical.Value) bool {
	seen := make(map[string]bool, len(v.Items))
	for _, one := range v.Items {
		if one.Kind != canonical.String || seen[one.Str] {
			return false
		}
		seen[one.Str] = true
	}
	return v.Kind == canonical.Array
}

// isType reports whether v is the name of a type, or lists several.
func isType(v canonical.Value) bool {
	if v.Kind == canonical.String {
		return slices.Contains(typeNames, v.Str)
	}
	return len(v.Items) > 0 && isNames(v) &&
		!slices.ContainsFunc(v.Items, func(one canonical.Value) bool { return !slices.Contains(typeNames, one.Str) })
}

var typeNames = []string{"object", "array", "string", "integer", "number", "boolean", "null"}

// maxUnique bounds lists whose items are compared with each other.
const maxUnique = 256

// schemaURL names a schema to the compiler; nothing is fetched.
const schemaURL = "https://handrail.invalid/schema"

type nothing struct{}

func (nothing) Load(string) (any, error) {
	return nil, errors.New("a schema cannot refer to another document")
}

// checkSchema refuses a root object schema that breaks a rule of the catalog. Results may be open
// in one way that inputs may not: {"description": …} without a type admits anything, which a
// script's result needs. judged is false if only compiling tells whether it is a schema: it has
// references, patterns or defaults. One that is judged compiles.
func checkSchema(doc canonical.Value, allowAny bool) (judged bool, err error) {
	if kind, _ := doc.Get("type"); kind.Str != "object" {
		return false, fmt.Errorf(`the root must have "type":"object"`)
	}
	r := rules{forAny: allowAny}
	r.defs, _ = doc.Get("$defs")
	for _, def := range r.defs.Members {
		if _, isRef := def.Value.Get("$ref"); isRef {
			return false, fmt.Errorf("$defs/%s is a bare reference", def.Key)
		}
		if err := r.check(def.Value, "$defs/"+def.Key, false); err != nil {
			return false, err
		}
	}
	if err := r.check(doc, "", false); err != nil {
		return false, err
	}
	return !r.beyond, nil
}

// compileSchema compiles a root object schema with its "$defs", which checkSchema takes.
func compileSchema(doc canonical.Value, allowAny bool) (*schema, error) {
	if _, err := checkSchema(doc, allowAny); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nothing{})
	if err := c.AddResource(schemaURL, doc.Interface()); err != nil {
		return nil, err
	}
	root, err := c.Compile(schemaURL)
	if err != nil {
		return nil, err
	}
	s := &schema{root: root, at: map[string]*jsonschema.Schema{}}
	return s, s.collect(root)
}

// collect puts n and the schemas in it into s.at, and tries their defaults.
func (s *schema) collect(n *jsonschema.Schema) error {
	if n == nil || s.at[n.Location] != nil {
		return nil
	}
	s.at[n.Location] = n
	if n.Default != nil {
		if err := n.Validate(*n.Default); err != nil {
			return fmt.Errorf("%s: the default does not fit: %w", strings.TrimPrefix(n.Location, schemaURL), err)
		}
	}
	for _, child := range children(n) {
		if err := s.collect(child); err != nil {
			return err
		}
	}
	return nil
}

// children lists the schemas in n.
func children(n *jsonschema.Schema) []*jsonschema.Schema {
	list := append(append([]*jsonschema.Schema{n.Ref, n.Items2020}, n.AnyOf...), n.OneOf...)
	if extra, ok := n.AdditionalProperties.(*jsonschema.Schema); ok {
		list = append(list, extra)
	}
	for _, prop := range n.Properties {
		list = append(list, prop)
	}
	return list
}

// rules are what a schema document has to keep to.
type rules struct {
	defs   canonical.Value
	forAny bool
	beyond bool // there is what only compiling can judge
}

// check checks one schema; branch is true inside anyOf and oneOf, where a schema may
// narrow its parent without saying everything again.
func (r *rules) check(doc canonical.Value, at string, branch bool) error {
	switch {
	case doc.Kind == canonical.Bool && doc.True && !r.forAny:
		return fmt.Errorf("%s: the schema true admits anything", at)
	case doc.Kind == canonical.Bool:
		return nil
	case doc.Kind != canonical.Object:
		return fmt.Errorf("%s: a schema is an object or a boolean", at)
	}
	if ref, ok := doc.Get("$ref"); ok {
		r.beyond = true
		return r.ref(doc, ref, at)
	}
	for _, m := range doc.Members {
		if err := r.keyword(m, at); err != nil {
			return err
		}
	}
	return r.bounded(doc, at, branch)
}

func (r *rules) ref(doc, ref canonical.Value, at string) error {
	for _, m := range doc.Members {
		if m.Key != "$ref" && m.Key != "description" {
			return fmt.Errorf("%s: %q beside $ref", at, m.Key)
		}
	}
	if _, ok := r.defs.Get(strings.TrimPrefix(ref.Str, defsPrefix)); !ok || !strings.HasPrefix(ref.Str, defsPrefix) {
		return fmt.Errorf("%s: $ref %q leads nowhere", at, ref.Str)
	}
	return nil
}

func (r *rules) keyword(m canonical.Member, at string) error {
	switch m.Key {
	case "$defs":
		r.beyond = true
		return nil // checkSchema has read them
	case "items":
		return r.check(m.Value, at+"/items", false)
	case "additionalProperties":
		if m.Value.Kind == canonical.Bool && !m.Value.True {
			return nil
		}
		return r.check(m.Value, at+"/additionalProperties", false)
	case "properties":
		if m.Value.Kind != canonical.Object {
			return fmt.Errorf("%s: properties must be an object", at)
		}
		for _, prop := range m.Value.Members {
			if err := r.check(prop.Value, at+"/"+prop.Key, false); err != nil {
				return err
			}
		}
		return nil
	case "enum":
		if len(m.Value.Items) == 0 {
			return fmt.Errorf("%s: enum must be a list", at)
		}
		return nil
	case "anyOf", "oneOf":
		if len(m.Value.Items) == 0 {
			return fmt.Errorf("%s: %s must be a list", at, m.Key)
		}
		for i, branch := range m.Value.Items {
			if err := r.check(branch, fmt.Sprintf("%s/%s/%d", at, m.Key, i), true); err != nil {
				return err
			}
		}
		return nil
	}
	kind, known := scalars[m.Key]
	switch {
	case !known:
		return fmt.Errorf("%s: the keyword %q is not supported", at, m.Key)
	case kind.fits == nil:
		r.beyond = true
	case !kind.fits(m.Value):
		return fmt.Errorf("%s: %s must be %s", at, m.Key, kind.words)
	}
	return nil
}

// bounded refuses what would let a caller send or get without end.
func (r *rules) bounded(doc canonical.Value, at string, branch bool) error {
	has := func(keys ...string) bool {
		for _, key := range keys {
			if _, ok := doc.Get(key); ok {
				return true
			}
		}
		return false
	}
	kind, _ := doc.Get("type")
	is := func(name string) bool {
		for _, one := range kind.Items {
			if one.Str == name {
				return true
			}
		}
		return kind.Str == name
	}
	open := !has("type", "enum", "const", "anyOf", "oneOf")
	extra, closed := doc.Get("additionalProperties")
	closed = closed && extra.Kind == canonical.Bool && !extra.True
	unique, _ := doc.Get("uniqueItems")
	most, _ := doc.Get("maxItems")
	switch {
	case branch && open: // it only narrows its parent
		return nil
	case open && !r.forAny:
		return fmt.Errorf("%s: says nothing about the value", at)
	case is("string") && !has("maxLength", "enum", "const"):
		return fmt.Errorf("%s: a string without maxLength", at)
	case is("array") && !(has("maxItems") && has("items")):
		return fmt.Errorf("%s: an array without maxItems or items", at)
	case unique.True && most.Num > maxUnique:
		return fmt.Errorf("%s: uniqueItems over more than %d items", at, maxUnique)
	case is("object") && !closed && !(has("additionalProperties") && has("maxProperties")):
		return fmt.Errorf("%s: an object without additionalProperties:false", at)
	}
	return nil
}
