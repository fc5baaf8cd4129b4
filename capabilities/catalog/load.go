package catalog

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

//go:embed data/*.json
var data embed.FS

// Load gives the embedded catalog with further families from the *.json files
// at the root of each file system (fixtures, later the owner's own tools). A
// tool ID, capability or wire name that is taken is refused: nothing shadows.
func Load(overlays ...fs.FS) (*Catalog, error) {
	own, err := fs.Sub(data, "data")
	if err != nil {
		return nil, err
	}
	var all []*Descriptor
	for _, fsys := range append([]fs.FS{own}, overlays...) {
		names, err := fs.Glob(fsys, "*.json")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := fs.ReadFile(fsys, name)
			if err != nil {
				return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "catalog: "+name+" can not be read")
			}
			family, err := readFamily(text)
			if err != nil {
				return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "catalog: %s: %v", path.Base(name), err)
			}
			all = append(all, family...)
		}
	}
	c, err := newCatalog(all)
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "catalog: %v", err)
	}
	return c, nil
}

// A family file is {"family", "$defs", "common", "tools"}: the fields of common
// are those of every tool that does not give them itself, and schemas may refer
// to "#/$defs/name".
func readFamily(text []byte) ([]*Descriptor, error) {
	doc, err := canonical.Decode(text, canonical.Limits{})
	if err != nil {
		return nil, errors.New(capabilities.AsError(err).PublicMessage())
	}
	for _, m := range doc.Members {
		switch m.Key {
		case "family", "$defs", "common", "tools":
		default:
			return nil, fmt.Errorf("unknown field %q", m.Key)
		}
	}
	family, _ := doc.Get("family")
	defs, _ := doc.Get("$defs")
	common, _ := doc.Get("common")
	tools, _ := doc.Get("tools")
	if family.Str == "" || tools.Kind != canonical.Array {
		return nil, fmt.Errorf("family and tools are required")
	}
	known, _ := defs.Interface().(map[string]any)
	list := make([]*Descriptor, 0, len(tools.Items))
	for i, tool := range tools.Items {
		d, err := readTool(common, tool, known)
		if err != nil {
			return nil, fmt.Errorf("tools/%d: %w", i, err)
		}
		if d.Tool.Family() != family.Str {
			return nil, refuse(d, "it is in the file of family %s", family.Str)
		}
		list = append(list, d)
	}
	return list, nil
}

func readTool(common, tool canonical.Value, defs map[string]any) (*Descriptor, error) {
	fields := map[string]any{}
	for _, source := range []canonical.Value{common, tool} {
		for _, m := range source.Members {
			fields[m.Key] = m.Value.Interface()
		}
	}
	var err error
	// A client may not know references, so inputs have none; results may, for
	// trees need them.
	if fields["input"], err = inline(fields["input"], defs, nil); err != nil {
		return nil, err
	}
	if fields["result"], err = attach(fields["result"], defs); err != nil {
		return nil, err
	}
	text, err := canonical.Marshal(fields)
	if err != nil {
		return nil, err
	}
	d := &Descriptor{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		return nil, err
	}
	return d, d.validate()
}

const defsPrefix = "#/$defs/"

// refName gives the name a node {"$ref": "#/$defs/name"} refers to.
func refName(node map[string]any) (string, bool) {
	ref, ok := node["$ref"].(string)
	if !ok || len(ref) <= len(defsPrefix) || ref[:len(defsPrefix)] != defsPrefix {
		return "", false
	}
	return ref[len(defsPrefix):], true
}

// inline replaces every reference by what it refers to; a description beside it
// stays.
func inline(node any, defs map[string]any, open []string) (any, error) {
	switch n := node.(type) {
	case []any:
		out := make([]any, len(n))
		for i := range n {
			var err error
			if out[i], err = inline(n[i], defs, open); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		name, isRef := refName(n)
		if isRef {
			def, ok := defs[name]
			if !ok || len(open) > 16 {
				return nil, fmt.Errorf("$ref to %s leads nowhere or in a circle", name)
			}
			got, err := inline(def, defs, append(open, name))
			if err != nil {
				return nil, err
			}
			if text, ok := n["description"]; ok {
				if m, ok := got.(map[string]any); ok {
					m["description"] = text
				}
			}
			return got, nil
		}
		out := make(map[string]any, len(n))
		for key, child := range n {
			var err error
			if out[key], err = inline(child, defs, open); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return node, nil
}

// attach puts the definitions that a schema uses, directly or not, under its
// own "$defs".
func attach(node any, defs map[string]any) (any, error) {
	root, ok := node.(map[string]any)
	if !ok {
		return node, nil
	}
	if name, isRef := refName(root); isRef { // clients want "type":"object" at the root
		if root, ok = defs[name].(map[string]any); !ok {
			return nil, fmt.Errorf("$ref to %s leads nowhere", name)
		}
	}
	used := map[string]any{}
	var collect func(node any) error
	collect = func(node any) error {
		switch n := node.(type) {
		case []any:
			for _, child := range n {
				if err := collect(child); err != nil {
					return err
				}
			}
		case map[string]any:
			if name, isRef := refName(n); isRef {
				def, ok := defs[name]
				if !ok {
					return fmt.Errorf("$ref to %s leads nowhere", name)
				}
				if _, seen := used[name]; !seen {
					used[name] = def
					return collect(def)
				}
			}
			for _, child := range n {
				if err := collect(child); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := collect(root); err != nil {
		return nil, err
	}
	if len(used) == 0 {
		return root, nil
	}
	out := map[string]any{"$defs": used}
	for key, child := range root {
		out[key] = child
	}
	return out, nil
}
