package catalog

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// The wire schemas of each domain have a folder of their own: tool/DOMAIN where the domain is
// there for what a model calls, plumbing/DOMAIN where it is not (S3-22, S3-28).
//
//go:embed tool/*/tools.json plumbing/*/tools.json
var data embed.FS

// Load returns the embedded catalog with further families from the *.json files at the root of each
// file system (fixtures, later the owner's own tools), each of which is validated. A tool ID,
// capability or wire name that is taken is refused: nothing shadows. The tests of this package
// validate the embedded files, not every start of a program: that took a third of the time of a
// load.
func Load(overlays ...fs.FS) (*Catalog, error) {
	var all []*Descriptor
	for n, fsys := range append([]fs.FS{data}, overlays...) {
		pattern := "*.json"
		if n == 0 {
			pattern = "*/*/tools.json"
		}
		names, err := fs.Glob(fsys, pattern)
		if err != nil {
			return nil, err
		}
		// Side by side: every start of a gateway or node waits for it.
		families, faults := make([][]*Descriptor, len(names)), make([]error, len(names))
		var reading sync.WaitGroup
		for i, name := range names {
			reading.Go(func() { families[i], faults[i] = readFile(fsys, name, n > 0) })
		}
		reading.Wait()
		for i, family := range families {
			if faults[i] != nil {
				return nil, faults[i] // of the first, whichever was met first
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

func readFile(fsys fs.FS, name string, validate bool) ([]*Descriptor, error) {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "catalog: "+name+" cannot be read")
	}
	family, err := readFamily(text, validate)
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "catalog: %s: %v", name, err)
	}
	return family, nil
}

// A family file is {"family", "$defs", "common", "tools"}: the fields of common are those of every
// tool that does not have them itself, and schemas may refer to "#/$defs/name".
func readFamily(text []byte, validate bool) ([]*Descriptor, error) {
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
	known, err := settleDefs(defs)
	if err != nil {
		return nil, err
	}
	list := make([]*Descriptor, 0, len(tools.Items))
	for i, tool := range tools.Items {
		d, err := readTool(common, tool, known)
		if err == nil && validate {
			err = d.Validate()
		}
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

func readTool(common, tool canonical.Value, defs definitions) (*Descriptor, error) {
	fields := map[string]any{}
	for _, source := range []canonical.Value{common, tool} {
		for _, m := range source.Members {
			fields[m.Key] = m.Value.Interface()
		}
	}
	// A client may not know references, so schemas have none; only the result that
	// is a tree keeps one.
	for _, name := range []string{"input", "result"} {
		fields[name] = inline(fields[name], defs)
	}
	fields["result"] = attach(fields["result"], defs)
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
	return d, nil
}

const defsPrefix = "#/$defs/"

// refName returns the name a node {"$ref": "#/$defs/name"} refers to.
func refName(node map[string]any) (string, bool) {
	ref, ok := node["$ref"].(string)
	if !ok || len(ref) <= len(defsPrefix) || ref[:len(defsPrefix)] != defsPrefix {
		return "", false
	}
	return ref[len(defsPrefix):], true
}

// definitions are the "$defs" of a family, inlined into each other as far as
// they are not circular.
type definitions struct {
	byName   map[string]any
	circular map[string]bool
}

func settleDefs(defs canonical.Value) (definitions, error) {
	d := definitions{byName: map[string]any{}, circular: map[string]bool{}}
	for _, m := range defs.Members {
		d.byName[m.Key] = m.Value.Interface()
	}
	for name := range d.byName {
		for reached := range d.reach(name, map[string]bool{}) {
			if _, ok := d.byName[reached]; !ok {
				return d, fmt.Errorf("$defs/%s: $ref to %s leads nowhere", name, reached)
			}
			d.circular[name] = d.circular[name] || reached == name
		}
	}
	settled := make(map[string]any, len(d.byName))
	for name, def := range d.byName {
		settled[name] = inline(def, d)
	}
	d.byName = settled
	return d, nil
}

// reach collects the names a definition refers to, directly or not.
func (d definitions) reach(name string, seen map[string]bool) map[string]bool {
	for _, next := range refs(d.byName[name]) {
		if !seen[next] {
			seen[next] = true
			d.reach(next, seen)
		}
	}
	return seen
}

// refs lists the names a schema refers to directly.
func refs(node any) []string {
	var names []string
	switch n := node.(type) {
	case []any:
		for _, child := range n {
			names = append(names, refs(child)...)
		}
	case map[string]any:
		if name, isRef := refName(n); isRef {
			names = append(names, name)
		}
		for _, child := range n {
			names = append(names, refs(child)...)
		}
	}
	return names
}

// inline replaces every reference by what it refers to, but for circular ones
// and unknown ones, which the compiler refuses. A description beside it wins.
func inline(node any, defs definitions) any {
	switch n := node.(type) {
	case []any:
		out := make([]any, len(n))
		for i := range n {
			out[i] = inline(n[i], defs)
		}
		return out
	case map[string]any:
		if name, isRef := refName(n); isRef && !defs.circular[name] && defs.byName[name] != nil {
			got := inline(defs.byName[name], defs)
			if text, ok := n["description"]; ok {
				if m, ok := got.(map[string]any); ok {
					m["description"] = text
				}
			}
			return got
		}
		out := make(map[string]any, len(n))
		for key, child := range n {
			out[key] = inline(child, defs)
		}
		return out
	}
	return node
}

// attach puts the circular definitions that a schema still refers to under its
// own "$defs".
func attach(node any, defs definitions) any {
	root, ok := node.(map[string]any)
	if !ok {
		return node
	}
	used := map[string]any{}
	for _, name := range refs(root) {
		if defs.byName[name] == nil {
			continue // the compiler refuses it
		}
		used[name] = defs.byName[name]
		for next := range defs.reach(name, map[string]bool{}) {
			used[next] = defs.byName[next]
		}
	}
	if len(used) > 0 {
		root["$defs"] = used
	}
	return root
}
