package policy

import (
	"encoding/json"
	"slices"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/handrail-dev/handrail/capabilities/canonical"
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
	// url is the index of the argument that names where to go, -1 if there is none.
	// For such a tool scheme, host, origin, port and address are always there.
	url   int
	app   bool // the call may name an application
	files int  // index of the argument that names files, -1 if there is none
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
	Enum       []any                  `json:"enum"`
	Items      *inputSchema           `json:"items"`
	Properties map[string]inputSchema `json:"properties"`
}

// newArgSpec finds the types of the arguments that the descriptor's evidence allowlist names. A
// value that is not a scalar or a list of strings is left out.
func newArgSpec(d *catalog.Descriptor) argSpec {
	spec := argSpec{url: -1, files: -1}
	if len(d.Evidence.Args) == 0 {
		return spec
	}
	var root inputSchema
	if err := json.Unmarshal(d.Input, &root); err != nil {
		return spec
	}
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
		reaches := func(kind catalog.ReachKind) bool { return slices.Contains(d.Reaching(kind), pointer) }
		if spec.url < 0 && kind == argString && reaches(catalog.ReachAddress) {
			spec.url = len(spec.args)
		}
		if spec.files < 0 && kind == argSet && reaches(catalog.ReachPath) {
			spec.files = len(spec.args)
		}
		spec.app = spec.app || reaches(catalog.ReachApp)
		spec.args = append(spec.args, a)
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
// false means that the arguments do not fit what the schema said of them; then
// nothing can be judged.
func (spec *argSpec) record(args []byte) (cedar.Record, bool) {
	var root canonical.Value
	if len(args) > 0 && len(spec.args) > 0 {
		var err error
		if root, err = canonical.Decode(args, canonical.Limits{}); err != nil || root.Kind != canonical.Object {
			return cedar.Record{}, false
		}
	}
	values := make(cedar.RecordMap, len(spec.args)+len(derivedArgs))
	dest := Destination{Address: AddressNone}
	var files []string
	for i := range spec.args {
		a := &spec.args[i]
		v, given := root, true
		for _, step := range a.path {
			if v, given = v.Get(step); !given {
				break
			}
		}
		if !given {
			continue
		}
		value, ok := a.value(v)
		if !ok {
			return cedar.Record{}, false
		}
		values[cedar.String(a.name)] = value
		if i == spec.url {
			dest = ClassifyURL(v.Str)
		}
		if i == spec.files {
			for _, item := range v.Items {
				files = append(files, item.Str)
			}
		}
	}
	if spec.app {
		values[cedar.String(derivedApp.name)] = application(root)
	}
	if spec.files >= 0 {
		values[cedar.String(derivedRoot.name)] = commonRoot(files)
	}
	if spec.url >= 0 {
		values["address"] = cedar.String(dest.Address)
		values["host"] = cedar.String(dest.Host)
		values["origin"] = cedar.String(dest.Origin)
		values["port"] = cedar.Long(dest.Port)
		values["scheme"] = cedar.String(dest.Scheme)
	}
	if len(values) == 0 {
		return cedar.Record{}, true
	}
	return cedar.NewRecord(values), true
}

func (a *arg) value(v canonical.Value) (cedar.Value, bool) {
	switch {
	case a.kind == argString && v.Kind == canonical.String:
		return cedar.String(v.Str), true
	case a.kind == argBool && v.Kind == canonical.Bool:
		return cedar.Boolean(v.True), true
	case a.kind == argLong && v.Integer():
		const most = 1 << 53
		return cedar.Long(max(-most, min(v.Num, most))), true
	case a.kind == argSet && v.Kind == canonical.Array:
		values := make([]cedar.Value, len(v.Items))
		for i, item := range v.Items {
			if item.Kind != canonical.String {
				return nil, false
			}
			values[i] = cedar.String(item.Str)
		}
		return cedar.NewSet(values...), true
	}
	return nil, false
}
