package macro

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Tools finds a registered tool by its ID.
type Tools func(capabilities.ToolID) (*catalog.Descriptor, bool)

// ID is the tool that a macro is.
func (m *Macro) ID() capabilities.ToolID { return ID(m.Name) }

// ID is the tool of the macro of that name.
func ID(name string) capabilities.ToolID { return capabilities.ToolID("tool.macro." + name) }

// Check finds what is wrong whatever the arguments are, by the schemas of the tools that there
// are now: CodeInvalidRequest with every fault (at most 16). Checks that no schema makes
// possible are made when the macro runs.
func (m *Macro) Check(tools Tools) error {
	c := checker{m: m, tools: tools, outputs: map[string]any{}}
	if json.Unmarshal(m.Input, &c.input) != nil {
		c.fail("args", "are no JSON Schemas")
	}
	for i := range m.Steps {
		c.step(&m.Steps[i], fmt.Sprintf("steps/%d (%s)", i, m.Steps[i].ID))
	}
	if m.Output != nil {
		c.inside = false
		c.value(m.Output, "output")
	}
	c.nesting()
	if len(c.faults) == 0 {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeInvalidRequest,
		"%s", capabilities.Clip(strings.Join(c.faults[:min(len(c.faults), 16)], "; "), 2000)).
		WithDetails(map[string]any{"faults": c.faults[:min(len(c.faults), 16)]})
}

type checker struct {
	m       *Macro
	tools   Tools
	input   any            // schema of the arguments
	outputs map[string]any // schemas of what earlier steps return; nil: nothing is known of one
	inside  bool           // of a step with each
	item    any            // schema of an item; nil: nothing is known
	faults  []string
}

func (c *checker) fail(at, format string, args ...any) {
	c.faults = append(c.faults, capabilities.Printable(at+": "+fmt.Sprintf(format, args...)))
}

func (c *checker) step(s *Step, at string) {
	c.inside, c.item = false, nil
	if s.Each != nil {
		c.value(s.Each, at+"/each")
		list := c.schemaOf(s.Each)
		if kinds := kindsOf(list); kinds != nil && !slices.Contains(kinds, "array") {
			c.fail(at+"/each", "is a list, and this is %s", strings.Join(kinds, " or "))
		}
		c.inside, c.item = true, schemaIn(list, "items")
	}
	c.tests(s.If, at+"/if")
	desc := c.action(&s.action, at)
	var result any
	if desc != nil {
		_ = json.Unmarshal(desc.Result, &result)
	}
	if s.Each != nil {
		// Each item's output by its place in the list.
		c.outputs[s.ID] = map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
			"items": map[string]any{"type": "array", "items": result},
		}}
		c.inside = false
	} else {
		c.outputs[s.ID] = result
	}
	c.tests(s.Expect, at+"/expect")
	if s.Undo != nil {
		c.inside = s.Each != nil
		c.action(s.Undo, at+"/undo")
	}
}

func (c *checker) tests(list []Test, at string) {
	for i := range list {
		if _, err := c.reach(list[i].at); err != nil {
			c.fail(fmt.Sprintf("%s/%d", at, i), "%v", err)
		}
	}
}

// value checks every reference in v.
func (c *checker) value(v *Value, at string) {
	v.references(func(path []string) {
		if _, err := c.reach(path); err != nil {
			c.fail(at, "%v", err)
		}
	})
}

// reach returns the schema of what a reference leads to; nil: nothing is known of it.
func (c *checker) reach(path []string) (any, error) {
	switch path[0] {
	case "args":
		return within(c.input, path[1:], "/args")
	case "item", "index":
		if !c.inside {
			return nil, fmt.Errorf("%s is there in a step with each only", pointer(path))
		}
		if path[0] == "index" {
			return map[string]any{"type": "integer"}, nil
		}
		return within(c.item, path[1:], "/item")
	}
	id := path[1]
	schema, before := c.outputs[id]
	switch {
	case !before:
		return nil, fmt.Errorf("%s: no step before this one has the ID %s", pointer(path), id)
	case path[2] == "status":
		return map[string]any{"type": "string"}, nil
	}
	return within(schema, path[3:], "/steps/"+id+"/output")
}

// within follows a path into a schema; nil: the schema does not say what is there.
func within(schema any, path []string, at string) (any, error) {
	for _, token := range path {
		m, ok := schema.(map[string]any)
		if !ok || m["$ref"] != nil || m["anyOf"] != nil || m["oneOf"] != nil {
			return nil, nil
		}
		kinds := kindsOf(m)
		props, _ := m["properties"].(map[string]any)
		next, known := props[token]
		switch {
		case known:
			schema = next
		case slices.Contains(kinds, "array"):
			if n, err := strconv.Atoi(token); err != nil || n < 0 {
				return nil, fmt.Errorf("%s is a list: %.64q is no place in it", at, token)
			}
			schema = schemaIn(m, "items")
		case len(kinds) == 1 && kinds[0] != "object":
			return nil, fmt.Errorf("%s is %s and has no %.64q", at, kinds[0], token)
		case m["additionalProperties"] == false:
			return nil, fmt.Errorf("%s has no %.64q; it has %s", at, token, namesOf(props))
		default:
			schema = schemaIn(m, "additionalProperties")
		}
		at += "/" + token
	}
	return schema, nil
}

func namesOf(props map[string]any) string {
	var names []string
	for name := range props {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "no fields"
	}
	return strings.Join(names[:min(len(names), 24)], ", ")
}

func schemaIn(schema any, key string) any {
	if m, ok := schema.(map[string]any); ok {
		if inner, ok := m[key].(map[string]any); ok {
			return inner
		}
	}
	return nil
}

// kindsOf returns the JSON types that a schema admits; nil: it does not say.
func kindsOf(schema any) []string {
	m, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	switch t := m["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var list []string
		for _, one := range t {
			if s, ok := one.(string); ok {
				list = append(list, s)
			}
		}
		return list
	}
	values, _ := m["enum"].([]any)
	if c, ok := m["const"]; ok {
		values = []any{c}
	}
	var list []string
	for _, v := range values {
		list = append(list, kindOf(v))
	}
	return list
}

func kindOf(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// meet reports whether some value is of both.
func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool {
			return x == y || x == "integer" && y == "number" || x == "number" && y == "integer"
		})
	})
}

// schemaOf returns the schema of what a value is; nil: nothing is known.
func (c *checker) schemaOf(v *Value) any {
	switch v.kind {
	case kindFrom:
		if v.otherwise != nil {
			return nil
		}
		schema, err := c.reach(v.path)
		if err != nil {
			return nil
		}
		return schema
	case kindJoin:
		return map[string]any{"type": "string"}
	case kindLiteral:
		return map[string]any{"type": kindOf(v.literal)}
	case kindList:
		return map[string]any{"type": "array"}
	}
	return map[string]any{"type": "object"}
}

// hole is a place in arguments that a reference fills.
type hole struct {
	path  []string
	value *Value
}

// action checks a call against the schema of its tool. It returns nil for a tool that is not there.
func (c *checker) action(a *action, at string) *catalog.Descriptor {
	desc, ok := c.tools(a.Tool)
	if !ok || !desc.ModelFacing {
		c.fail(at, "there is no tool %s that can be called; approve its provider first", a.Tool)
		return nil
	}
	c.value(&a.With, at+"/with")
	var holes []hole
	sample, _ := c.sample(&a.With, nil, &holes).(map[string]any)
	if a.Node != nil {
		c.value(a.Node, at+"/node")
		if desc.NodeCapability() == "" || desc.Provider != "" {
			c.fail(at+"/node", "%s takes no node", a.Tool)
		} else if sample["node_id"] != nil {
			c.fail(at+"/node", "is said twice: in node and in with")
		} else {
			sample["node_id"] = "node"
		}
	}
	var full any
	_ = json.Unmarshal(desc.FullInput(true), &full)
	for _, h := range holes {
		want, err := within(full, h.path, string(a.Tool))
		if err != nil {
			c.fail(at+"/with", "%v", err)
			continue
		}
		if have, need := kindsOf(c.schemaOf(h.value)), kindsOf(want); have != nil && need != nil && !meet(have, need) {
			c.fail(at+"/with"+pointer(h.path), "%s takes %s here, and this is %s", a.Tool, strings.Join(need, " or "), strings.Join(have, " or "))
		}
	}
	raw, err := canonical.Marshal(sample)
	if err != nil {
		c.fail(at+"/with", "is no JSON")
		return desc
	}
	_, bad, err := desc.SplitArgs(raw)
	if err != nil {
		c.fail(at+"/with", "%s", capabilities.AsError(err).PublicMessage())
	}
	for _, v := range bad {
		// The value of a reference is not there yet, and so is what stands around it.
		filled := slices.ContainsFunc(holes, func(h hole) bool { return touches(v.Path, pointer(h.path)) })
		if !filled {
			c.fail(at+"/with"+v.Path, "%s", v.Message)
		}
	}
	return desc
}

// touches reports whether one path is the other or leads to it.
func touches(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") || a == ""
}

// sample is a value in which something stands for each reference.
func (c *checker) sample(v *Value, at []string, holes *[]hole) any {
	switch v.kind {
	case kindLiteral:
		return v.literal
	case kindObject:
		out := make(map[string]any, len(v.parts))
		for i := range v.parts {
			out[v.names[i]] = c.sample(&v.parts[i], append(slices.Clone(at), v.names[i]), holes)
		}
		return out
	case kindList:
		out := make([]any, 0, len(v.parts))
		for i := range v.parts {
			out = append(out, c.sample(&v.parts[i], append(slices.Clone(at), strconv.Itoa(i)), holes))
		}
		return out
	}
	*holes = append(*holes, hole{at, v})
	schema := c.schemaOf(v)
	if m, ok := schema.(map[string]any); ok {
		if list, ok := m["enum"].([]any); ok && len(list) > 0 {
			return list[0]
		}
	}
	for _, kind := range kindsOf(schema) {
		switch kind {
		case "integer", "number":
			return float64(1)
		case "boolean":
			return true
		case "array":
			return []any{}
		case "object":
			return map[string]any{}
		}
	}
	return "x"
}

// nesting refuses a macro that leads back to itself, and one that is too deep (S3-16's bound
// holds for every layer that calls others).
func (c *checker) nesting() {
	var deepest func(uses []capabilities.ToolID, depth int) int
	var circle bool
	deepest = func(uses []capabilities.ToolID, depth int) int {
		most := depth
		for _, id := range uses {
			if id == c.m.ID() {
				circle = true
				continue
			}
			desc, ok := c.tools(id)
			if !ok || !desc.Composes() || depth > 2*MaxDepth {
				continue
			}
			var inner []capabilities.ToolID
			for _, s := range desc.Steps {
				inner = append(inner, capabilities.ToolID(s))
			}
			most = max(most, deepest(inner, depth+1))
		}
		return most
	}
	switch depth := deepest(c.m.Uses(), 1); {
	case circle:
		c.fail("steps", "the macro leads back to itself")
	case depth > MaxDepth:
		c.fail("steps", "macros call macros at most %d deep, and this would be %d", MaxDepth, depth)
	}
}
