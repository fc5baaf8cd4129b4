package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// Bounds of the schemas of one operation.
const (
	maxDefs   = 48 << 10 // bytes of what is referred to; what is beyond admits anything
	maxSchema = 20_000   // values in one schema
)

// arguments is the schema of one operation's arguments as it is made: its parameters, its body,
// and the schemas that these refer to. Package tools makes it safe, as for every other provider.
type arguments struct {
	*document
	props    map[string]any
	required []any
	defs     map[string]any
	names    map[string]string // of references
	queue    []string
	size     int
	left     int
}

func newArguments(d *document) *arguments {
	return &arguments{document: d, props: map[string]any{}, defs: map[string]any{}, names: map[string]string{}, left: maxSchema}
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// name is what callers call a parameter: clients take 64 letters, digits, dots, dashes and
// underscores. Two that meet are told by where they stand.
func (a *arguments) name(name, in string) string {
	safe := strings.Trim(unsafeName.ReplaceAllString(name, "_"), "_")
	if safe == "" {
		safe = in
	}
	safe = safe[:min(len(safe), 56)]
	taken := func(s string) bool { _, is := a.props[s]; return is || s == tools.ArgBody }
	for i, s := 1, safe; ; i++ {
		if !taken(s) {
			return s
		}
		if s = safe + "_" + in; i > 1 {
			s += "_" + strconv.Itoa(i)
		}
		if !taken(s) {
			return s
		}
	}
}

func (a *arguments) add(name string, schema any, description string, required bool) {
	made := a.schemaOf(schema, 0)
	if m := mapOf(made); m != nil && description != "" {
		m["description"] = capabilities.Clip(description, 2048)
	}
	a.props[name] = made
	if required {
		a.required = append(a.required, name)
	}
}

func (a *arguments) drop(name string) {
	delete(a.props, name)
	a.required = slices.DeleteFunc(a.required, func(v any) bool { return v == name })
}

// schema is the whole of it.
func (a *arguments) schema() (json.RawMessage, error) {
	for len(a.queue) > 0 {
		ref := a.queue[0]
		a.queue = a.queue[1:]
		a.left = maxSchema
		made := a.schemaOf(a.pointer(ref), 0)
		data, err := canonical.Marshal(made)
		if err != nil {
			return nil, problem("a schema that it refers to cannot be written down")
		}
		if a.size += len(data); a.size > maxDefs {
			break // the references that are left lead nowhere, and admit anything
		}
		a.defs[a.names[ref]] = made
	}
	out := map[string]any{"type": "object", "properties": a.props, "additionalProperties": false}
	if len(a.required) > 0 {
		out["required"] = a.required
	}
	if len(a.defs) > 0 {
		out["$defs"] = a.defs
	}
	data, err := canonical.Marshal(out)
	if err != nil {
		return nil, problem("its schema cannot be written down")
	}
	if len(data) > tools.MaxToolBytes-(16<<10) {
		return nil, problem(fmt.Sprintf("its schema has more than %d bytes", tools.MaxToolBytes-(16<<10)))
	}
	return data, nil
}

// words are the keywords that package tools reads.
var words = []string{
	"additionalProperties", "allOf", "anyOf", "const", "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "items",
	"maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "nullable", "oneOf", "pattern", "prefixItems", "properties",
	"required", "type",
}

// schemaOf is a schema with its references led to $defs, and without what no caller sends.
func (a *arguments) schemaOf(v any, depth int) any {
	if a.left--; a.left < 0 || depth > maxDepth/2 || !a.spend(1) {
		return map[string]any{"$ref": "#/$defs/"} // leads nowhere: anything
	}
	m, ok := v.(map[string]any)
	if !ok {
		if v == nil || v == true {
			return map[string]any{}
		}
		return v
	}
	if ref, ok := m["$ref"].(string); ok {
		out := map[string]any{"$ref": "#/$defs/" + a.reference(ref)}
		if text := textOf(m["description"]); text != "" {
			out["description"] = capabilities.Clip(text, 1024)
		}
		return out
	}
	out := make(map[string]any, len(m))
	for _, key := range words {
		v, ok := m[key]
		if !ok {
			continue
		}
		switch key {
		case "properties":
			out[key] = a.properties(mapOf(v), depth)
		case "items", "additionalProperties":
			if mapOf(v) != nil {
				v = a.schemaOf(v, depth+1)
			}
			out[key] = v
		case "allOf", "anyOf", "oneOf":
			list := listOf(v)
			parts := make([]any, 0, min(len(list), max(a.left, 0)+1))
			for _, part := range list {
				if a.left < 0 {
					break
				}
				parts = append(parts, a.schemaOf(part, depth+1))
			}
			out[key] = parts
		case "description":
			out[key] = capabilities.Clip(textOf(v), 1024)
		case "exclusiveMinimum", "exclusiveMaximum": // in 3.0 they say how the other is meant
			a.exclusive(out, m, key, v)
		case "required":
			out[key] = a.needed(m, listOf(v))
		default:
			_ = a.spend(len(listOf(v))) // an enum is written down with the rest
			out[key] = v
		}
	}
	return out
}

func (a *arguments) exclusive(out, m map[string]any, key string, v any) {
	limit := strings.ToLower(key[len("exclusive"):])
	switch flag, isFlag := v.(bool); {
	case !isFlag:
		out[key] = v
	case flag && m[limit] != nil:
		out[key] = m[limit]
	}
}

// properties leaves out those that a server sends and never takes.
func (a *arguments) properties(m map[string]any, depth int) map[string]any {
	out := make(map[string]any, min(len(m), max(a.left, 0)+1))
	if !a.spend(4 * len(m)) { // they are sorted
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(m)) { // in one order: references are numbered
		if v := m[name]; !a.readOnly(v) {
			out[name] = a.schemaOf(v, depth+1)
		}
	}
	return out
}

func (a *arguments) readOnly(v any) bool { return boolOf(mapOf(v)["readOnly"]) }

func (a *arguments) needed(m map[string]any, list []any) []any {
	props := mapOf(m["properties"])
	if !a.spend(len(list)) {
		return nil
	}
	out := make([]any, 0, len(list))
	for _, v := range list {
		if name, ok := v.(string); ok && !a.readOnly(props[name]) {
			out = append(out, name)
		}
	}
	return out
}

// reference returns the name of what a reference leads to in $defs.
func (a *arguments) reference(ref string) string {
	if name, ok := a.names[ref]; ok {
		return name
	}
	if a.pointer(ref) == nil || len(a.names) > maxSchema/10 {
		return "" // another document, or nothing
	}
	name := unsafeName.ReplaceAllString(ref[strings.LastIndexByte(ref, '/')+1:], "_")
	name = name[:min(len(name), 64)] + "_" + strconv.Itoa(len(a.names))
	a.names[ref] = name
	a.queue = append(a.queue, ref)
	return name
}
