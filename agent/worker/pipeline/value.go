package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

const maxNested = 8

// Value is a value of a file: as it is written, or made of references. An object whose only field
// is "from" is a reference: /task, or /steps/ID and what follows in that step's result. One with
// "join" alone joins texts.
type Value struct {
	literal any
	path    []string // of a reference
	join    []Value
	parts   map[string]Value
	list    []Value
}

func only(v canonical.Value, field string) (canonical.Value, bool) {
	if v.Kind != canonical.Object || len(v.Members) != 1 {
		return canonical.Value{}, false
	}
	return v.Get(field)
}

func (p *Pipeline) value(v canonical.Value, at string, depth int) (out Value, err error) {
	if depth > maxNested {
		return out, fmt.Errorf("%s: is nested deeper than %d", at, maxNested)
	}
	if from, ok := only(v, "from"); ok {
		return p.reference(from, at+"/from")
	}
	if join, ok := only(v, "join"); ok {
		if join.Kind != canonical.Array || len(join.Items) == 0 {
			return out, fmt.Errorf("%s/join: a list of texts and references", at)
		}
		out.join, err = p.values(join, at+"/join", depth)
		return out, err
	}
	switch v.Kind {
	case canonical.Object:
		return p.object(v, at, depth)
	case canonical.Array:
		out.list, err = p.values(v, at, depth)
		return out, err
	}
	return Value{literal: v.Interface()}, nil
}

func (p *Pipeline) values(v canonical.Value, at string, depth int) ([]Value, error) {
	list := make([]Value, 0, len(v.Items))
	for i, item := range v.Items {
		one, err := p.value(item, at+"/"+strconv.Itoa(i), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

func (p *Pipeline) object(v canonical.Value, at string, depth int) (Value, error) {
	out := Value{parts: make(map[string]Value, len(v.Members))}
	for _, m := range v.Members {
		one, err := p.value(m.Value, at+"/"+m.Key, depth+1)
		if err != nil {
			return out, err
		}
		out.parts[m.Key] = one
	}
	return out, nil
}

// reference reads a JSON Pointer (RFC 6901) into what a run knows by then.
func (p *Pipeline) reference(v canonical.Value, at string) (Value, error) {
	bad := fmt.Errorf("%s: /task, or an earlier step's result, such as /steps/find/matches/0", at)
	if v.Kind != canonical.String || !strings.HasPrefix(v.Str, "/") || len(v.Str) > 512 {
		return Value{}, bad
	}
	path := strings.Split(v.Str[1:], "/")
	for i, token := range path {
		path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	if !(len(path) == 1 && path[0] == "task" || len(path) > 1 && path[0] == "steps" && p.has(path[1])) {
		return Value{}, bad
	}
	return Value{path: path}, nil
}

// steps reports whether anything in v is of a step.
func (v Value) steps() bool {
	inner := func(one Value) bool { return one.steps() }
	return len(v.path) > 1 || slices.ContainsFunc(v.join, inner) || slices.ContainsFunc(v.list, inner) ||
		slices.ContainsFunc(slices.Collect(maps.Values(v.parts)), inner)
}

// Eval returns the value as of now. CodeInvalidArguments for a reference to what is not there.
func (v Value) Eval(w *World) (any, error) {
	switch {
	case v.path != nil:
		return w.find(v.path)
	case v.join != nil:
		var b strings.Builder
		for _, part := range v.join {
			one, err := part.Eval(w)
			if err != nil {
				return nil, err
			}
			b.WriteString(Text(one))
		}
		return b.String(), nil
	case v.parts != nil:
		all := make(map[string]any, len(v.parts))
		for _, name := range slices.Sorted(maps.Keys(v.parts)) {
			one, err := v.parts[name].Eval(w)
			if err != nil {
				return nil, err
			}
			all[name] = one
		}
		return all, nil
	case v.list != nil:
		all := make([]any, 0, len(v.list))
		for _, part := range v.list {
			one, err := part.Eval(w)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, nil
	}
	return v.literal, nil
}

func (w *World) find(path []string) (any, error) {
	if path[0] == "task" {
		return w.Task, nil
	}
	at := w.Steps[path[1]]
	for i, token := range path[2:] {
		var next any
		ok := false
		switch v := at.(type) {
		case map[string]any:
			next, ok = v[token]
		case []any:
			n, err := strconv.Atoi(token)
			if ok = err == nil && n >= 0 && n < len(v); ok {
				next = v[n]
			}
		}
		if !ok {
			return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "there is no /%s", strings.Join(path[:i+3], "/"))
		}
		at = next
	}
	return at, nil
}

// Text is a value in words: a text as it is, a list line by line, anything else as JSON.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		lines := make([]string, 0, len(v))
		for _, one := range v {
			lines = append(lines, Text(one))
		}
		return strings.Join(lines, "\n")
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
