package catalog

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// This is the one schema validator of the gateway (S4-11): a closed subset of
// JSON Schema 2020-12, compiled once. It exists because every violation must be
// named with its path, which the library at hand stops short of, and because a
// call may not pay for reflection. A keyword it does not know is a load error,
// so it can not be wrong by ignorance; tests compare its verdicts with
// github.com/google/jsonschema-go.

// kinds is a set of JSON types.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBool
	kindNumber
	kindInteger
	kindString
	kindArray
	kindObject
)

var kindByName = map[string]kinds{
	"null": kindNull, "boolean": kindBool, "number": kindNumber, "integer": kindInteger,
	"string": kindString, "array": kindArray, "object": kindObject,
}

// schema is one compiled schema. A zero bound pointer means "no bound".
type schema struct {
	never bool // the schema false
	types kinds

	enum    []canonical.Value // also const
	min     *float64
	max     *float64
	above   *float64 // exclusiveMinimum
	below   *float64 // exclusiveMaximum
	minLen  int
	maxLen  int // -1: none
	pattern *regexp.Regexp

	items    *schema
	minItems int
	maxItems int // -1: none
	unique   bool

	names    []string // properties, sorted, for messages
	props    map[string]*schema
	required []string
	closed   bool // additionalProperties: false
	extra    *schema
	minProps int
	maxProps int // -1: none

	anyOf []*schema
	oneOf []*schema
	// alternatives is the fields of an anyOf or oneOf whose branches each only
	// require some, such as "ref" and "selector".
	alternatives []string
}

// compiler turns schema documents into schemas. Results may be open in one way
// that inputs may not: {"description": …} without a type admits anything, which
// a script's result needs.
type compiler struct {
	defs   map[string]*schema
	forAny bool
}

// compileSchema compiles a root object schema with its "$defs".
func compileSchema(doc canonical.Value, allowAny bool) (*schema, error) {
	c := &compiler{defs: map[string]*schema{}, forAny: allowAny}
	if defs, ok := doc.Get("$defs"); ok {
		for _, def := range defs.Members {
			c.defs[def.Key] = &schema{}
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
	if root.types != kindObject {
		return nil, fmt.Errorf(`the root must have "type":"object"`)
	}
	return root, nil
}

// compile compiles one schema; branch is true inside anyOf and oneOf, where a
// schema may narrow its parent without saying everything again.
func (c *compiler) compile(doc canonical.Value, at string, branch bool) (*schema, error) {
	s := &schema{maxLen: -1, maxItems: -1, maxProps: -1}
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

func (c *compiler) ref(doc, ref canonical.Value, at string) (*schema, error) {
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
func (c *compiler) bounded(s *schema, at string, branch bool) error {
	open := s.types == 0 && s.enum == nil && s.anyOf == nil && s.oneOf == nil && !s.never
	switch {
	case branch && open: // it only narrows its parent
		return nil
	case open && !c.forAny:
		return fmt.Errorf("%s: says nothing about the value", at)
	case s.types&kindString != 0 && s.maxLen < 0 && s.enum == nil:
		return fmt.Errorf("%s: a string without maxLength", at)
	case s.types&kindArray != 0 && (s.maxItems < 0 || s.items == nil):
		return fmt.Errorf("%s: an array without maxItems or items", at)
	case s.unique && s.maxItems > 256: // compared pairwise
		return fmt.Errorf("%s: uniqueItems over more than 256 items", at)
	case s.types&kindObject != 0 && !s.closed && !(s.extra != nil && s.maxProps >= 0):
		return fmt.Errorf("%s: an object without additionalProperties:false", at)
	}
	return nil
}

func (c *compiler) keyword(s *schema, key string, v canonical.Value, at string) error {
	wrong := func(want string) error { return fmt.Errorf("%s: %s must be %s", at, key, want) }
	var err error
	switch key {
	case "$defs", "$schema", "$comment", "title", "description", "default", "examples", "format", "contentEncoding":
		// annotations, and what compileSchema has read already
	case "type":
		names := v.Items
		if v.Kind == canonical.String {
			names = []canonical.Value{v}
		}
		for _, name := range names {
			kind, ok := kindByName[name.Str]
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
		s.min, err = bound(v)
	case "maximum":
		s.max, err = bound(v)
	case "exclusiveMinimum":
		s.above, err = bound(v)
	case "exclusiveMaximum":
		s.below, err = bound(v)
	case "minLength":
		s.minLen, err = count(v)
	case "maxLength":
		s.maxLen, err = count(v)
	case "minItems":
		s.minItems, err = count(v)
	case "maxItems":
		s.maxItems, err = count(v)
	case "minProperties":
		s.minProps, err = count(v)
	case "maxProperties":
		s.maxProps, err = count(v)
	case "pattern":
		s.pattern, err = regexp.Compile(v.Str)
	case "uniqueItems":
		s.unique = v.True
	case "items":
		s.items, err = c.compile(v, at+"/items", false)
	case "properties":
		s.props = make(map[string]*schema, len(v.Members))
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
		s.required, err = stringList(v)
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

func (c *compiler) branches(s *schema, v canonical.Value, at string) ([]*schema, error) {
	if v.Kind != canonical.Array || len(v.Items) == 0 {
		return nil, fmt.Errorf("a list of schemas was expected")
	}
	list := make([]*schema, 0, len(v.Items))
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

func bound(v canonical.Value) (*float64, error) {
	if v.Kind != canonical.Number {
		return nil, fmt.Errorf("a number was expected")
	}
	return &v.Num, nil
}

func count(v canonical.Value) (int, error) {
	if v.Kind != canonical.Number || v.Num < 0 || v.Num > math.MaxInt32 || !v.Integer() {
		return 0, fmt.Errorf("a count was expected")
	}
	return int(v.Num), nil
}

func stringList(v canonical.Value) ([]string, error) {
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
