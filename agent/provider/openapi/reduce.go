package openapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// Reduce returns a document, as JSON, without what makes no tool that p wants: answers, examples,
// other operations, and what nothing refers to. It makes the same manifest as the whole.
func Reduce(p *tools.Provider, data []byte) ([]byte, error) {
	d, err := read(data, nil)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"openapi": d.root["openapi"], "info": map[string]any{"version": textOf(mapOf(d.root["info"])["version"])}}
	for _, key := range []string{"servers", "security"} {
		if d.root[key] != nil {
			out[key] = d.root[key]
		}
	}
	r := &reader{document: d, record: p, tags: map[string]bool{}}
	paths := map[string]any{}
	k := &keeper{document: d, components: map[string]any{}, seen: map[string]bool{}, left: maxValues}
	for _, path := range slices.Sorted(maps.Keys(mapOf(d.root["paths"]))) {
		item, err := d.resolved(mapOf(d.root["paths"])[path])
		if err != nil || !strings.HasPrefix(path, "/") {
			continue
		}
		kept := map[string]any{}
		for _, method := range methods {
			op := mapOf(item[method])
			if op == nil {
				continue
			}
			r.seen++
			if t := r.named(method, path, op); len(p.Only) == 0 || p.Wants(&t) {
				kept[method] = k.only(op, "operationId", "summary", "description", "tags", "deprecated", "parameters", "requestBody", "security",
					"servers")
			}
		}
		if len(kept) > 0 {
			maps.Copy(kept, k.only(item, "parameters", "servers"))
			paths[path] = kept
		}
	}
	if len(paths) == 0 {
		if r.seen == 0 {
			return nil, bad("it has no operations")
		}
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the document has no operation or tag that is wanted").
			WithAction(capabilities.Action{Key: capabilities.ActionAddProvider}, r.hint())
	}
	if schemes := mapOf(mapOf(d.root["components"])["securitySchemes"]); schemes != nil {
		k.components["securitySchemes"] = maps.Clone(schemes)
		k.follow(schemes)
	}
	switch {
	case k.left < 0:
		return nil, bad("it has more than %d values", maxValues)
	case k.beyond: // seldom: then all of it is kept
		out = d.root
	default:
		out["paths"], out["components"] = paths, k.components
	}
	return json.Marshal(out)
}

// keeper copies what is referred to among the components.
type keeper struct {
	*document
	components map[string]any
	seen       map[string]bool
	queue      []any
	left       int
	beyond     bool // something refers to what is no component
}

func (k *keeper) only(m map[string]any, keys ...string) map[string]any {
	out := map[string]any{}
	for _, key := range keys {
		if v, ok := m[key]; ok {
			out[key] = v
			k.follow(v)
		}
	}
	return out
}

// follow keeps what a value refers to, each once.
func (k *keeper) follow(v any) {
	k.queue = append(k.queue, v)
	for len(k.queue) > 0 {
		last := k.queue[len(k.queue)-1]
		k.queue = k.queue[:len(k.queue)-1]
		if k.left--; k.left < 0 {
			return
		}
		switch v := last.(type) {
		case []any:
			k.queue = append(k.queue, v...)
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && !k.seen[ref] {
				k.seen[ref] = true
				k.keep(ref)
			}
			for _, one := range v {
				k.queue = append(k.queue, one)
			}
		}
	}
}

func (k *keeper) keep(ref string) {
	keys := steps(ref)
	switch {
	case keys == nil: // another document, which is not read
	case len(keys) != 3 || keys[0] != "components":
		k.beyond = true
	default:
		target := k.pointer(ref)
		if target == nil {
			return
		}
		kind := mapOf(k.components[keys[1]])
		if kind == nil {
			kind = map[string]any{}
			k.components[keys[1]] = kind
		}
		kind[keys[2]] = target
		k.queue = append(k.queue, target)
	}
}
