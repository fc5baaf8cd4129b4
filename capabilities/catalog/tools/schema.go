package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// A provider's schema becomes the same shapes in the keywords that the catalog takes,
// each with a bound. A keyword that cannot be kept is left out, which lets more through to the
// provider, who checks it itself; nothing that could be called before cannot be called after.

// Bounds of a schema.
const (
	maxString     = 1 << 20 // of the whole arguments, too
	maxItems      = 10_000
	maxProperties = 1000
	maxDepth      = 24
	maxNodes      = 4000 // schemas in one, references unfolded; what is long counts for several
	maxEnum       = 1000
	maxRef        = 1024 // bytes of a reference
	maxKinds      = 8    // there are seven
)

// anything admits every value: the one open schema that the catalog has.
func anything(description string) map[string]any {
	return map[string]any{"description": description}
}

// safe rewrites one document.
type safe struct {
	root   map[string]any
	nodes  int
	lost   bool            // something could not be kept
	inside map[string]bool // the references that are being unfolded
}

// readSchema decodes a provider's schema; none is that of a tool without arguments.
func readSchema(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	v, err := canonical.Decode(raw, canonical.Limits{MaxBytes: MaxToolBytes, Foreign: true})
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON that can be read: %s", capabilities.AsError(err).PublicMessage())
	}
	root, ok := v.Interface().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema is no object")
	}
	return root, nil
}

// safeSchema returns a schema for the catalog. The bool says that a part of it was lost. It may
// change what is in root.
func safeSchema(root map[string]any) (json.RawMessage, bool, error) {
	s := &safe{root: root, inside: map[string]bool{}}
	if parts, ok := root["allOf"].([]any); ok {
		if root = s.merged(root, parts); s.nodes > maxNodes {
			return nil, false, fmt.Errorf("the schema has more than %d parts once its references are unfolded", maxNodes)
		}
	}
	out := s.object(root, 0)
	data, err := canonical.Marshal(out)
	if err == nil && len(data) > MaxToolBytes {
		err = fmt.Errorf("the schema is larger than %d bytes once its references are unfolded", MaxToolBytes)
	}
	return data, s.lost, err
}

// spend counts work, about a node for each, and reports whether there may be more: what a reference
// leads to is paid for each time.
func (s *safe) spend(nodes int) bool {
	s.nodes += nodes
	return s.nodes <= maxNodes
}

// schema rewrites one schema. A part that it cannot say becomes anything.
func (s *safe) schema(node any, depth int) any {
	m, ok := node.(map[string]any)
	if within := s.spend(1 + len(m)/32); !ok || depth > maxDepth || !within {
		s.lost = s.lost || node != true
		return anything("any value")
	}
	if ref, ok := m["$ref"].(string); ok {
		return s.reference(ref, m, depth)
	}
	if parts, ok := m["allOf"].([]any); ok {
		return s.schema(s.merged(m, parts), depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if parts, ok := m[key].([]any); ok && len(parts) > 0 && len(parts) <= 64 {
			own, parts, is := s.alternatives(m, key, parts)
			if is {
				return s.union(m, parts, depth)
			}
			m = own
		}
	}
	kinds := kindsOf(m)
	switch {
	case m["enum"] != nil:
		list, ok := m["enum"].([]any)
		if !ok || len(list) == 0 || len(list) > maxEnum || !s.says(list) {
			s.lost = true
			return anything(textOf(m["description"], "any value"))
		}
		return described(m, map[string]any{"enum": list})
	case m["const"] != nil:
		if !s.says(m["const"]) {
			s.lost = true
			return anything(textOf(m["description"], "any value"))
		}
		return described(m, map[string]any{"const": m["const"]})
	case len(kinds) == 0:
		return anything(textOf(m["description"], "any value"))
	case len(kinds) > 1:
		var parts []any
		for _, kind := range kinds {
			one := map[string]any{}
			for k, v := range m {
				one[k] = v
			}
			one["type"] = kind
			delete(one, "description")
			delete(one, "nullable") // that made two kinds of one
			parts = append(parts, one)
		}
		return s.union(map[string]any{"description": m["description"]}, parts, depth)
	}
	switch kinds[0] {
	case "object":
		return s.object(m, depth)
	case "array":
		return s.array(m, depth)
	case "string":
		return s.text(m)
	case "integer", "number":
		out := map[string]any{"type": kinds[0]}
		for _, k := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
			if n, ok := m[k].(float64); ok {
				out[k] = n
			}
		}
		return described(m, out)
	case "boolean", "null":
		return described(m, map[string]any{"type": kinds[0]})
	}
	s.lost = true
	return anything("any value")
}

// says reports whether a value may stand in a schema as it is: all of its words are short, and can
// be seen. A word that was cleaned would be another one to the provider.
func (s *safe) says(v any) bool {
	bytes, plain := wordsOf(v)
	return s.spend(bytes/64) && plain
}

// wordsOf returns about how many bytes a value has, and whether every word in it is short and
// plain.
func wordsOf(v any) (bytes int, plain bool) {
	each := func(v any) bool {
		n, ok := wordsOf(v)
		bytes += n
		return ok
	}
	switch v := v.(type) {
	case string:
		return 8 + len(v), len(v) <= maxAnnotations && capabilities.Printable(v) == v
	case []any:
		for _, one := range v {
			if !each(one) {
				return bytes, false
			}
		}
	case map[string]any:
		for name, one := range v {
			if !each(name) || !each(one) {
				return bytes, false
			}
		}
	}
	return bytes + 8, true
}

func (s *safe) object(m map[string]any, depth int) map[string]any {
	out := map[string]any{"type": "object"}
	props, _ := m["properties"].(map[string]any)
	if len(props) > maxProperties {
		s.lost, props = true, nil
	}
	if len(props) > 0 {
		safe := make(map[string]any, len(props))
		for name, prop := range props {
			if len(name) > 256 || capabilities.Printable(name) != name {
				s.lost = true
				continue
			}
			safe[name] = s.schema(prop, depth+1)
		}
		out["properties"] = safe
		if req, ok := m["required"].([]any); ok {
			var need []any
			s.spend(len(req) / 4)
			known := make(map[string]bool, len(safe))
			for _, r := range req {
				if name, ok := r.(string); ok && safe[name] != nil && !known[name] {
					known[name] = true
					need = append(need, name)
				}
			}
			if len(need) > 0 {
				out["required"] = need
			}
		}
	}
	switch extra := m["additionalProperties"].(type) {
	case bool:
		if extra || len(props) == 0 && depth > 0 && m["properties"] == nil {
			s.open(out, anything("any value"))
		} else {
			out["additionalProperties"] = false
		}
	case map[string]any:
		s.open(out, s.schema(extra, depth+1))
	default:
		if len(props) == 0 && depth > 0 {
			s.open(out, anything("any value"))
		} else {
			out["additionalProperties"] = false
		}
	}
	return described(m, out)
}

func (s *safe) open(out map[string]any, values any) {
	out["additionalProperties"], out["maxProperties"] = values, maxProperties
}

func (s *safe) array(m map[string]any, depth int) any {
	out := map[string]any{"type": "array", "maxItems": bound(m["maxItems"], maxItems)}
	if n, ok := m["minItems"].(float64); ok && n >= 0 && n <= maxItems {
		out["minItems"] = n
	}
	items := m["items"]
	if _, tuple := items.([]any); tuple || m["prefixItems"] != nil {
		s.lost, items = true, nil
	}
	if items == nil {
		out["items"] = anything("any value")
	} else {
		out["items"] = s.schema(items, depth+1)
	}
	return described(m, out)
}

func (s *safe) text(m map[string]any) any {
	out := map[string]any{"type": "string", "maxLength": bound(m["maxLength"], maxString)}
	if n, ok := m["minLength"].(float64); ok && n >= 0 && n <= maxString {
		out["minLength"] = n
	}
	if f, ok := m["format"].(string); ok && len(f) <= 32 && capabilities.Printable(f) == f {
		out["format"] = f
	}
	s.lost = s.lost || m["pattern"] != nil // the provider's own dialect of patterns
	return described(m, out)
}

// alternatives are what a value may be by m[key]. The keywords beside them hold for each: they are
// joined with it. Alternatives that only say more about these, such as which fields are required
// together, are lost: false, and m without them.
func (s *safe) alternatives(m map[string]any, key string, parts []any) (own map[string]any, list []any, is bool) {
	own = map[string]any{}
	for k, v := range m {
		if k != key && k != "description" && k != "nullable" {
			own[k] = v
		}
	}
	s.spend(len(own) / 8)
	if !shaped(own) {
		return own, parts, true
	}
	if !slices.ContainsFunc(parts, func(part any) bool { p, _ := part.(map[string]any); return shaped(p) }) {
		s.lost = true
		own["description"], own["nullable"] = m["description"], m["nullable"]
		return own, nil, false
	}
	if own["properties"] == nil {
		return own, parts, true
	}
	for _, part := range parts {
		list = append(list, map[string]any{"allOf": []any{own, part}})
	}
	return own, list, true
}

// shaped reports whether a schema says of what kind a value is.
func shaped(m map[string]any) bool {
	for _, key := range []string{"type", "properties", "items", "enum", "const", "$ref", "allOf", "anyOf", "oneOf"} {
		if m[key] != nil {
			return true
		}
	}
	return false
}

func (s *safe) union(m map[string]any, parts []any, depth int) any {
	out := make([]any, 0, len(parts))
	for _, part := range parts {
		one := s.schema(part, depth+1)
		if o, ok := one.(map[string]any); ok && o["type"] == nil && o["enum"] == nil && o["const"] == nil && o["anyOf"] == nil {
			return anything(textOf(m["description"], "any value")) // one of them admits everything
		}
		out = append(out, one)
	}
	if len(out) == 1 {
		return out[0]
	}
	return described(m, map[string]any{"anyOf": out})
}

// merged is m with the keywords of its allOf, the later winning but for properties and
// required, which are joined.
func (s *safe) merged(m map[string]any, parts []any) map[string]any {
	out := map[string]any{}
	props, need := map[string]any{}, []any{}
	own := map[string]any{}
	for k, v := range m {
		if k != "allOf" {
			own[k] = v
		}
	}
	for _, part := range append(slices.Clone(parts), own) {
		if !s.spend(1) {
			s.lost = true
			break
		}
		p, ok := part.(map[string]any)
		if ref, isRef := p["$ref"].(string); ok && isRef {
			if p, ok = s.resolve(ref).(map[string]any); ok && p["allOf"] != nil && len(props) < maxProperties {
				if inner, isList := p["allOf"].([]any); isList && s.nodes < maxNodes {
					s.nodes += 100 // a chain of references that lead to each other ends by the bound
					p = s.merged(p, inner)
				}
			}
		}
		if !ok {
			s.lost = true
			continue
		}
		s.spend(len(p) / 32)
		for k, v := range p {
			switch k {
			case "properties":
				if all, ok := v.(map[string]any); ok {
					s.spend(len(all) / 8)
					for name, prop := range all {
						props[name] = prop
					}
				}
			case "required":
				if list, ok := v.([]any); ok {
					s.spend(len(list) / 8)
					need = append(need, list...)
				}
			default:
				out[k] = v
			}
		}
	}
	if len(props) > 0 {
		out["type"], out["properties"], out["required"] = "object", props, need
	}
	return out
}

// reference unfolds a local reference; one that leads into itself becomes anything.
func (s *safe) reference(ref string, beside map[string]any, depth int) any {
	target := s.resolve(ref)
	if target == nil || s.inside[ref] {
		s.lost = true
		return anything(textOf(beside["description"], "any value"))
	}
	s.inside[ref] = true
	defer delete(s.inside, ref)
	out := s.schema(target, depth+1)
	if text, ok := beside["description"].(string); ok {
		if m, isMap := out.(map[string]any); isMap {
			m["description"] = textOf(text, "")
		}
	}
	return out
}

// resolve follows a reference inside the document; nil for any other.
func (s *safe) resolve(ref string) any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok || len(ref) > maxRef {
		return nil
	}
	var at any = s.root
	for key := range strings.SplitSeq(path, "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[escaped.Replace(key)]
	}
	return at
}

// escaped is how names stand in a reference.
var escaped = strings.NewReplacer("~1", "/", "~0", "~", "%24", "$")

func kindsOf(m map[string]any) []string {
	var kinds []string
	switch t := m["type"].(type) {
	case string:
		kinds = []string{t}
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && !slices.Contains(kinds, name) && len(kinds) < maxKinds {
				kinds = append(kinds, name)
			}
		}
	case nil:
		switch {
		case m["properties"] != nil:
			kinds = []string{"object"}
		case m["items"] != nil:
			kinds = []string{"array"}
		}
	}
	if m["nullable"] == true && len(kinds) == 1 && kinds[0] != "null" { // OpenAPI 3.0
		kinds = append(kinds, "null")
	}
	return kinds
}

// described puts the words of m, cleaned, into out.
func described(m, out map[string]any) map[string]any {
	if text, ok := m["description"].(string); ok && text != "" {
		out["description"] = textOf(text, "")
	}
	return out
}

// textOf returns a description, cleaned and short, or other if it is none.
func textOf(v any, other string) string {
	text, ok := v.(string)
	if !ok {
		return other
	}
	if text = oneLine(capabilities.Clip(text, 4*maxAnnotations), maxAnnotations); text == "" {
		return other
	}
	return text
}

func bound(v any, most float64) float64 {
	if n, ok := v.(float64); ok && n >= 0 && n < most {
		return n
	}
	return most
}

// schemaFlags is what a person should look at in the words of a schema: of its descriptions, the
// names of its parameters, and the values that they may have. root is as the provider has it.
func schemaFlags(root map[string]any) []Flag {
	found := map[Flag]bool{}
	look := func(text string) {
		_, flags := clean(text, maxText)
		for _, f := range flags {
			found[f] = true
		}
	}
	var walk func(v any, shown bool)
	walk = func(v any, shown bool) {
		switch v := v.(type) {
		case string:
			if shown {
				look(v)
			}
		case []any:
			for _, one := range v {
				walk(one, shown)
			}
		case map[string]any:
			for key, one := range v {
				named, isMap := one.(map[string]any)
				if !isMap || key != "properties" || shown {
					walk(one, shown || key == "description" || key == "title" || key == "enum" || key == "const")
					continue
				}
				for name, prop := range named { // a parameter may be called "description"
					look(name)
					walk(prop, false)
				}
			}
		}
	}
	walk(root, false)
	var all []Flag
	for _, f := range []Flag{FlagHidden, FlagInstructions, FlagMarkup} {
		if found[f] {
			all = append(all, f)
		}
	}
	return all
}
