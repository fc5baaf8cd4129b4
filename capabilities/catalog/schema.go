package catalog

import (
	"errors"
	"fmt"
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

// scalars are the keywords without schemas in them that a schema may have. Some only
// describe; contentEncoding and format are not asserted.
var scalars = map[string]bool{
	"$schema": true, "$comment": true, "title": true, "description": true, "default": true, "examples": true, "format": true, "contentEncoding": true,
	"type": true, "const": true, "minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "minLength": true, "maxLength": true,
	"minItems": true, "maxItems": true, "minProperties": true, "maxProperties": true, "pattern": true, "uniqueItems": true, "required": true,
}

// maxUnique bounds lists whose items are compared with each other.
const maxUnique = 256

// schemaURL names a schema to the compiler; nothing is fetched.
const schemaURL = "https://handrail.invalid/schema"

type nothing struct{}

func (nothing) Load(string) (any, error) {
	return nil, errors.New("a schema cannot refer to another document")
}

// compileSchema compiles a root object schema with its "$defs". Results may be open in
// one way that inputs may not: {"description": …} without a type admits anything, which
// a script's result needs.
func compileSchema(doc canonical.Value, allowAny bool) (*schema, error) {
	if kind, _ := doc.Get("type"); kind.Str != "object" {
		return nil, fmt.Errorf(`the root must have "type":"object"`)
	}
	r := rules{forAny: allowAny}
	r.defs, _ = doc.Get("$defs")
	for _, def := range r.defs.Members {
		if _, isRef := def.Value.Get("$ref"); isRef {
			return nil, fmt.Errorf("$defs/%s is a bare reference", def.Key)
		}
		if err := r.check(def.Value, "$defs/"+def.Key, false); err != nil {
			return nil, err
		}
	}
	if err := r.check(doc, "", false); err != nil {
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
}

// check checks one schema; branch is true inside anyOf and oneOf, where a schema may
// narrow its parent without saying everything again.
func (r rules) check(doc canonical.Value, at string, branch bool) error {
	switch {
	case doc.Kind == canonical.Bool && doc.True && !r.forAny:
		return fmt.Errorf("%s: the schema true admits anything", at)
	case doc.Kind == canonical.Bool:
		return nil
	case doc.Kind != canonical.Object:
		return fmt.Errorf("%s: a schema is an object or a boolean", at)
	}
	if ref, ok := doc.Get("$ref"); ok {
		return r.ref(doc, ref, at)
	}
	for _, m := range doc.Members {
		if err := r.keyword(m, at); err != nil {
			return err
		}
	}
	return r.bounded(doc, at, branch)
}

func (r rules) ref(doc, ref canonical.Value, at string) error {
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

func (r rules) keyword(m canonical.Member, at string) error {
	switch m.Key {
	case "$defs":
		return nil // compileSchema has read them
	case "items":
		return r.check(m.Value, at+"/items", false)
	case "additionalProperties":
		if m.Value.Kind == canonical.Bool && !m.Value.True {
			return nil
		}
		return r.check(m.Value, at+"/additionalProperties", false)
	case "properties":
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
		for i, branch := range m.Value.Items {
			if err := r.check(branch, fmt.Sprintf("%s/%s/%d", at, m.Key, i), true); err != nil {
				return err
			}
		}
		return nil
	}
	if !scalars[m.Key] {
		return fmt.Errorf("%s: the keyword %q is not supported", at, m.Key)
	}
	return nil
}

// bounded refuses what would let a caller send or get without end.
func (r rules) bounded(doc canonical.Value, at string, branch bool) error {
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
