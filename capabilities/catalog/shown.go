package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// The parts of a schema that a surface lists. Every agent pays for the list in every turn, so it
// holds what helps to write a call or to read an answer, and nothing that only a machine checks:
// SplitArgs and ValidateResult enforce all of it anyway, and name what was wrong.

// shownInput is shown of a whole input schema. The routing timeout is the same
// field in every tool; its bounds are told once, with the server's instructions.
func shownInput(schema canonical.Value, timeoutArg string) canonical.Value {
	out := shown(schema, true)
	for i, m := range out.Members {
		if m.Key != "properties" {
			continue
		}
		for j, p := range m.Value.Members {
			if p.Key == timeoutArg {
				out.Members[i].Value.Members[j].Value = typed("integer")
			}
		}
	}
	return out
}

// shown is the part of an input schema that helps a model to write a call, in a
// form that clients accept. Root combinators go: the Claude API refuses a
// whole tool list for one. So do bounds of text and lists, by which nobody
// counts, lower bounds that everyone expects, what is taken for granted when a
// field is absent, and forms that only say which fields go together (the tool's
// description does).
func shown(schema canonical.Value, root bool) canonical.Value {
	if schema.Kind == canonical.Array { // the branches of a combinator
		out := canonical.Value{Kind: canonical.Array}
		for _, item := range schema.Items {
			out.Items = append(out.Items, shown(item, false))
		}
		return out
	}
	if schema.Kind != canonical.Object {
		return schema
	}
	if flat, ok := flattened(schema); ok && !root {
		return flat
	}
	if either, ok := textOrObject(schema); ok {
		return either
	}
	out := canonical.Value{Kind: canonical.Object}
	for _, m := range schema.Members {
		switch m.Key {
		case "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
			"exclusiveMinimum", "exclusiveMaximum", "format", "contentEncoding", "$schema", "$comment", "$defs":
			continue
		case "minimum":
			if most, ok := schema.Get("maximum"); m.Value.Num == 0 || m.Value.Num == 1 || ok && far(most) {
				continue
			}
		case "maximum":
			if far(m.Value) {
				continue
			}
		case "required":
			if !root && measured(schema, m.Value) {
				continue
			}
		case "$ref": // the circular part of a tree; a reader gets along without its shape
			return typed("object")
		case "default":
			if granted(schema, m.Value) {
				continue
			}
		case "additionalProperties":
			if !root {
				continue // one closed root says it
			}
		case "anyOf", "oneOf":
			if root || onlyRequires(m.Value) {
				continue
			}
			m.Value = shown(m.Value, false)
		case "items":
			m.Value = shown(m.Value, false)
		case "properties": // its keys are names, not keywords
			m.Value = mapped(m.Value, func(p canonical.Value) canonical.Value { return shown(p, false) })
		}
		out.Members = append(out.Members, m)
	}
	if enum, ok := schema.Get("enum"); ok && allText(enum) {
		if _, typed := schema.Get("type"); !typed { // some clients refuse values without a type
			out.Members = append(out.Members, canonical.Member{Key: "type", Value: text("string")})
		}
	}
	return out
}

// far reports whether a bound is beyond what anyone gives who was not told of it.
func far(bound canonical.Value) bool { return bound.Num >= 1000 }

// measured reports whether the fields that an object needs are its numbers, as a
// point's x and y: that goes without saying.
func measured(schema, required canonical.Value) bool {
	properties, _ := schema.Get("properties")
	numbers := 0
	for _, p := range properties.Members {
		if kind, _ := p.Value.Get("type"); kind.Str == "number" {
			numbers++
		}
	}
	for _, name := range required.Items {
		p, _ := properties.Get(name.Str)
		if kind, _ := p.Get("type"); kind.Str != "number" {
			return false
		}
	}
	return len(required.Items) == numbers
}

// granted reports whether a default goes without saying: no, the first of a list
// of values, and all there may be.
func granted(schema, def canonical.Value) bool {
	if def.Kind == canonical.Bool {
		return !def.True
	}
	if most, ok := schema.Get("maximum"); ok && canonical.Equal(most, def) {
		return true
	}
	enum, ok := schema.Get("enum")
	return ok && len(enum.Items) > 0 && canonical.Equal(enum.Items[0], def)
}

// onlyRequires reports whether the branches of a combinator say nothing but which
// fields go together.
func onlyRequires(branches canonical.Value) bool {
	for _, b := range branches.Items {
		if _, ok := b.Get("required"); !ok || len(b.Members) != 1 {
			return false
		}
	}
	return true
}

// flattened returns a union of objects that a field with one fixed value tells
// apart, such as "kind", as one object with the fields of all; its description
// says which go with which. It is shorter, and some clients know no unions.
func flattened(schema canonical.Value) (canonical.Value, bool) {
	branches, ok := schema.Get("oneOf")
	if !ok || len(schema.Members) != 1 {
		return canonical.Value{}, false
	}
	tag := ""
	var tags []canonical.Value
	var says []string
	fields := map[string]canonical.Value{}
	for _, b := range branches.Items {
		properties, _ := b.Get("properties")
		var own []string
		tagged := false
		for _, p := range properties.Members {
			if value, ok := p.Value.Get("const"); ok && value.Kind == canonical.String && (tag == "" || tag == p.Key) && !tagged {
				tag, tagged = p.Key, true
				tags = append(tags, value)
				continue
			}
			if have, taken := fields[p.Key]; taken && !canonical.Equal(have, p.Value) {
				return canonical.Value{}, false
			}
			fields[p.Key] = p.Value
			own = append(own, p.Key)
		}
		if !tagged {
			return canonical.Value{}, false
		}
		says = append(says, tags[len(tags)-1].Str+": "+strings.Join(own, ", "))
	}
	list := canonical.Value{Kind: canonical.Array, Items: tags}
	fields[tag] = canonical.Value{Kind: canonical.Object, Members: []canonical.Member{{Key: "enum", Value: list}}}
	properties := canonical.Value{Kind: canonical.Object}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		properties.Members = append(properties.Members, canonical.Member{Key: name, Value: shown(fields[name], false)})
	}
	return canonical.Value{Kind: canonical.Object, Members: []canonical.Member{
		{Key: "description", Value: text(strings.Join(says, "; ") + ".")},
		{Key: "properties", Value: properties},
		{Key: "required", Value: canonical.Value{Kind: canonical.Array, Items: []canonical.Value{text(tag)}}},
		{Key: "type", Value: text("object")},
	}}, true
}

// textOrObject returns a union of a text and a union of objects, such as a
// selector, with its description alone: the text can say all that the objects
// can, which are there for clients that know them.
func textOrObject(schema canonical.Value) (canonical.Value, bool) {
	branches, _ := schema.Get("oneOf")
	if len(branches.Items) != 2 {
		return canonical.Value{}, false
	}
	kind, _ := branches.Items[0].Get("type")
	if _, union := branches.Items[1].Get("oneOf"); !union || kind.Str != "string" {
		return canonical.Value{}, false
	}
	both := canonical.Value{Kind: canonical.Array, Items: []canonical.Value{text("string"), text("object")}}
	out := canonical.Value{Kind: canonical.Object, Members: []canonical.Member{{Key: "type", Value: both}}}
	if description, ok := schema.Get("description"); ok {
		out.Members = append(out.Members, canonical.Member{Key: "description", Value: description})
	}
	return out, true
}

// shownResult is a result schema with its names and the types of its own fields; what
// those hold has names alone. Nothing in it is required and nothing closed, so that it is
// true of a failure as well, whose structured content is {"error": …}: clients check
// that, too.
func shownResult(schema canonical.Value, depth int) canonical.Value {
	kind, _ := schema.Get("type")
	if properties, ok := schema.Get("properties"); ok && (depth == 0 || kind.Str == "object") {
		return parts("properties", shownFields(properties, depth), "object", depth)
	}
	if items, ok := schema.Get("items"); ok {
		return parts("items", shownResult(items, depth), "array", depth)
	}
	enum, _ := schema.Get("enum")
	_, circular := schema.Get("$ref")
	switch {
	case depth > 1:
	case circular:
		return typed("object")
	case allText(enum) && len(enum.Items) > 0:
		return typed("string")
	case kind.Kind == canonical.String || kind.Kind == canonical.Array:
		return canonical.Value{Kind: canonical.Object, Members: []canonical.Member{{Key: "type", Value: kind}}}
	}
	return canonical.Value{Kind: canonical.Object} // a union, or any JSON
}

// parts is a schema with its fields or items; below the result's own fields these say what it is.
func parts(key string, value canonical.Value, kind string, depth int) canonical.Value {
	out := canonical.Value{Kind: canonical.Object, Members: []canonical.Member{{Key: key, Value: value}}}
	if depth <= 1 {
		out.Members = append(out.Members, canonical.Member{Key: "type", Value: text(kind)})
	}
	return out
}

// carried are fields that almost every tool of a family may carry, with what happened since the
// call before. They are told by name and type alone: their parts name themselves.
var carried = []string{"downloads", "opened_tabs", "still_open"}

func shownFields(properties canonical.Value, depth int) canonical.Value {
	out := canonical.Value{Kind: canonical.Object}
	for _, m := range properties.Members {
		if slices.Contains(carried, m.Key) {
			m.Value = typed("array")
		} else {
			m.Value = shownResult(m.Value, depth+1)
		}
		out.Members = append(out.Members, m)
	}
	return out
}

func allText(list canonical.Value) bool {
	for _, v := range list.Items {
		if v.Kind != canonical.String {
			return false
		}
	}
	return true
}

func text(s string) canonical.Value { return canonical.Value{Kind: canonical.String, Str: s} }

func typed(name string) canonical.Value {
	return canonical.Value{Kind: canonical.Object, Members: []canonical.Member{{Key: "type", Value: text(name)}}}
}

// mapped applies fn to the values of an object.
func mapped(object canonical.Value, fn func(canonical.Value) canonical.Value) canonical.Value {
	out := canonical.Value{Kind: canonical.Object}
	for _, m := range object.Members {
		out.Members = append(out.Members, canonical.Member{Key: m.Key, Value: fn(m.Value)})
	}
	return out
}

// withoutBytes drops the fields that stand for captured bytes: surfaces that
// read ModelResult carry them as bytes.
func withoutBytes(result canonical.Value) canonical.Value {
	out := canonical.Value{Kind: canonical.Object}
	for _, m := range result.Members {
		if m.Key == "properties" {
			kept := canonical.Value{Kind: canonical.Object}
			for _, p := range m.Value.Members {
				if !strings.HasPrefix(p.Key, bytesField) {
					kept.Members = append(kept.Members, p)
				}
			}
			m.Value = kept
		}
		out.Members = append(out.Members, m)
	}
	return out
}
