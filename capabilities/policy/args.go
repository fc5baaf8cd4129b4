package policy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// argKind is how an argument appears in a policy.
type argKind string

const (
	argString argKind = "String"
	argBool   argKind = "Bool"
	argLong   argKind = "Long" // integers only: Cedar has no floating point
	argSet    argKind = "Set<String>"
)

// arg is one allowlisted argument of a tool.
type arg struct {
	path []string // where it lies in the arguments
	name string   // context.args.NAME: the path joined by '_', '-' as '_'
	kind argKind
}

// argSpec is what policy may see of a tool's arguments.
type argSpec struct {
	args []arg
	// url is the argument that names where to go, nil if there is none. For such a
	// tool scheme, host, origin, port and address are always there.
	url *arg
}

// derivedArgs are what a URL argument adds to context.args.
var derivedArgs = []arg{
	{name: "address", kind: argString}, {name: "host", kind: argString}, {name: "origin", kind: argString},
	{name: "port", kind: argLong}, {name: "scheme", kind: argString},
}

// inputSchema is the little that is read of a JSON Schema here: the types of
// properties.
type inputSchema struct {
	Type       json.RawMessage        `json:"type"`
	Format     string                 `json:"format"`
	Enum       []any                  `json:"enum"`
	Items      *inputSchema           `json:"items"`
	Properties map[string]inputSchema `json:"properties"`
}

// newArgSpec finds the types of the arguments that the descriptor's evidence
// allowlist names. What is not a scalar or a list of strings is left out.
func newArgSpec(d *catalog.Descriptor) argSpec {
	var root inputSchema
	if err := json.Unmarshal(d.Input, &root); err != nil {
		return argSpec{}
	}
	var spec argSpec
	for _, pointer := range d.Evidence.Args {
		path := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
		node, ok := root, true
		for _, step := range path {
			if node, ok = node.Properties[step]; !ok {
				break
			}
		}
		if !ok {
			continue
		}
		kind, ok := node.kind()
		if !ok {
			continue
		}
		a := arg{path: path, name: strings.ReplaceAll(strings.Join(path, "_"), "-", "_"), kind: kind}
		spec.args = append(spec.args, a)
		// The contract's word for "where to go" is url; format says it outright.
		if spec.url == nil && kind == argString && (node.Format == "uri" || a.name == "url") {
			spec.url = &a
		}
	}
	return spec
}

func (s inputSchema) kind() (argKind, bool) {
	var name string
	if err := json.Unmarshal(s.Type, &name); err != nil {
		onlyStrings := len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(v any) bool { _, ok := v.(string); return !ok })
		return argString, onlyStrings
	}
	switch name {
	case "string":
		return argString, true
	case "boolean":
		return argBool, true
	case "integer":
		return argLong, true
	case "array":
		if s.Items == nil {
			return "", false
		}
		item, ok := s.Items.kind()
		return argSet, ok && item == argString
	}
	return "", false
}

// record makes context.args. It reads the arguments themselves, not their
// shortened form for the ledger: a URL cut short could hide where it leads.
func (spec argSpec) record(canonical []byte) cedar.Record {
	if len(spec.args) == 0 {
		return cedar.Record{}
	}
	values := make(cedar.RecordMap, len(spec.args)+len(derivedArgs))
	dest := Destination{Address: AddressNone}
	for i := range spec.args {
		a := &spec.args[i]
		raw := lookup(canonical, a.path)
		if raw == nil {
			continue
		}
		v, ok := a.value(raw)
		if !ok {
			continue
		}
		values[cedar.String(a.name)] = v
		if spec.url != nil && a.name == spec.url.name {
			dest = ClassifyURL(string(v.(cedar.String)))
		}
	}
	if spec.url != nil {
		values["address"] = cedar.String(dest.Address)
		values["host"] = cedar.String(dest.Host)
		values["origin"] = cedar.String(dest.Origin)
		values["port"] = cedar.Long(dest.Port)
		values["scheme"] = cedar.String(dest.Scheme)
	}
	return cedar.NewRecord(values)
}

func (a *arg) value(raw []byte) (cedar.Value, bool) {
	switch a.kind {
	case argString:
		var s string
		err := json.Unmarshal(raw, &s)
		return cedar.String(s), err == nil && raw[0] == '"'
	case argBool:
		var b bool
		err := json.Unmarshal(raw, &b)
		return cedar.Boolean(b), err == nil && raw[0] != 'n'
	case argLong:
		var n int64
		err := json.Unmarshal(raw, &n)
		return cedar.Long(n), err == nil && raw[0] != 'n'
	case argSet:
		var list []string
		if err := json.Unmarshal(raw, &list); err != nil || raw[0] != '[' {
			return nil, false
		}
		values := make([]cedar.Value, len(list))
		for i, s := range list {
			values[i] = cedar.String(s)
		}
		return cedar.NewSet(values...), true
	}
	return nil, false
}

// lookup finds the raw value at path, nil if there is none.
func lookup(object []byte, path []string) []byte {
	for _, step := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(object, &fields); err != nil {
			return nil
		}
		object = bytes.TrimSpace(fields[step])
		if len(object) == 0 {
			return nil
		}
	}
	return object
}
