package macro

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/canonical/yaml"
)

// Bounds of a macro.
const (
	MaxSteps  = 50  // in the file
	MaxCalls  = 200 // of one run, those of undoing besides
	MaxDepth  = 3   // macros in macros, the first counted
	maxArgs   = 32
	maxTests  = 16
	maxNested = 16 // of a value
	maxOutput = 16 << 20
)

// The time of a run, in milliseconds.
const (
	defaultTime = 120_000
	mostTime    = 600_000
)

// Macro is what a file says. It never changes.
type Macro struct {
	Name        string // of its provider
	Title       string
	Description string
	Input       json.RawMessage // JSON Schema of its arguments, closed
	Steps       []Step
	Output      *Value // of the result's data; nil: none
	Returns     string // Output as the file has it
	TimeoutMS   int
}

// Step is one step: one call, or one for each item of a list.
type Step struct {
	ID string
	action
	If     []Test
	Each   *Value // the list; nil: one call
	Most   int    // items of Each at most
	Expect []Test
	Undo   *action // nil: nothing undoes it
	Says   string  // the step in one line, as a person reads it
}

// action is what is called.
type action struct {
	Tool capabilities.ToolID
	Node *Value // nil: as for every call
	With Value  // an object
}

var (
	idFormat  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	argFormat = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
)

// JSON returns the file of a macro, YAML or JSON, as the canonical JSON that Read takes.
func JSON(text []byte) (json.RawMessage, error) { return yaml.JSON(text) }

// Read reads a macro: CodeInvalidRequest, which names the field. It knows no tools; Check does.
func Read(name string, text json.RawMessage) (*Macro, error) {
	doc, err := canonical.Decode(text, canonical.Limits{MaxBytes: 2 * yaml.MaxBytes})
	if err != nil {
		return nil, err
	}
	m := &Macro{Name: name}
	if err := m.read(doc); err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s", capabilities.Clip(capabilities.Printable(err.Error()), 500))
	}
	return m, nil
}

// fields returns the members of an object that has no others than known.
func fields(v canonical.Value, at string, known ...string) (map[string]canonical.Value, error) {
	if v.Kind != canonical.Object {
		return nil, fmt.Errorf("%s: an object was expected", at)
	}
	all := make(map[string]canonical.Value, len(v.Members))
	for _, m := range v.Members {
		if !slices.Contains(known, m.Key) {
			return nil, fmt.Errorf("%s: unknown field %.64q; known: %s", at, m.Key, strings.Join(known, ", "))
		}
		all[m.Key] = m.Value
	}
	return all, nil
}

func (m *Macro) read(doc canonical.Value) error {
	f, err := fields(doc, "macro", "title", "description", "args", "optional", "steps", "output", "timeout_ms")
	if err != nil {
		return err
	}
	m.Title, m.Description, m.TimeoutMS = f["title"].Str, f["description"].Str, defaultTime
	if m.Description == "" || f["description"].Kind != canonical.String {
		return fmt.Errorf("description: says what the macro does, for models and people")
	}
	if ms, ok := f["timeout_ms"]; ok {
		if !ms.Integer() || ms.Num < 1 || ms.Num > mostTime {
			return fmt.Errorf("timeout_ms: 1 to %d", mostTime)
		}
		m.TimeoutMS = int(ms.Num)
	}
	if m.Input, err = readArgs(f["args"], f["optional"]); err != nil {
		return err
	}
	steps := f["steps"]
	if steps.Kind != canonical.Array || len(steps.Items) == 0 || len(steps.Items) > MaxSteps {
		return fmt.Errorf("steps: a list of 1 to %d", MaxSteps)
	}
	for i, item := range steps.Items {
		s, err := readStep(item, fmt.Sprintf("steps/%d", i))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(m.Steps, func(o Step) bool { return o.ID == s.ID }) {
			return fmt.Errorf("steps/%d/id: %s is there twice", i, s.ID)
		}
		m.Steps = append(m.Steps, s)
	}
	if out, ok := f["output"]; ok {
		v, err := readValue(out, "output", 0)
		if err != nil {
			return err
		}
		m.Output, m.Returns = &v, string(out.Append(nil))
	}
	return nil
}

// readArgs makes the schema of the arguments: each has one of its own, and is required unless it
// is named as optional.
func readArgs(args, optional canonical.Value) (json.RawMessage, error) {
	properties, required := map[string]any{}, []string{}
	var names []string
	for _, one := range optional.Items {
		names = append(names, one.Str)
	}
	if len(args.Members) > maxArgs || args.Kind != canonical.Object && args.Kind != canonical.Null {
		return nil, fmt.Errorf("args: an object of at most %d arguments, each with a JSON Schema", maxArgs)
	}
	for _, a := range args.Members {
		if !argFormat.MatchString(a.Key) {
			return nil, fmt.Errorf("args: the name %.64q must match %s", a.Key, argFormat)
		}
		if a.Value.Kind != canonical.Object {
			return nil, fmt.Errorf("args/%s: a JSON Schema, such as {type: string, maxLength: 200}", a.Key)
		}
		properties[a.Key] = a.Value.Interface()
		if !slices.Contains(names, a.Key) {
			required = append(required, a.Key)
		}
	}
	for _, name := range names {
		if properties[name] == nil {
			return nil, fmt.Errorf("optional: there is no argument %.64q", name)
		}
	}
	schema := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return canonical.Marshal(schema)
}

func readStep(v canonical.Value, at string) (s Step, err error) {
	f, err := fields(v, at, "id", "tool", "node", "with", "if", "each", "most", "expect", "undo")
	if err != nil {
		return s, err
	}
	if s.ID = f["id"].Str; !idFormat.MatchString(s.ID) {
		return s, fmt.Errorf("%s/id: must match %s", at, idFormat)
	}
	if s.action, err = readAction(f, at); err != nil {
		return s, err
	}
	if s.If, err = readTests(f["if"], at+"/if"); err != nil {
		return s, err
	}
	if s.Expect, err = readTests(f["expect"], at+"/expect"); err != nil {
		return s, err
	}
	if each, ok := f["each"]; ok {
		list, err := readValue(each, at+"/each", 0)
		if err != nil {
			return s, err
		}
		most := f["most"]
		if !most.Integer() || most.Num < 1 || most.Num > MaxCalls {
			return s, fmt.Errorf("%s/most: how many items each takes, 1 to %d", at, MaxCalls)
		}
		s.Each, s.Most = &list, int(most.Num)
	} else if _, ok := f["most"]; ok {
		return s, fmt.Errorf("%s/most: belongs to each", at)
	}
	if undo, ok := f["undo"]; ok {
		u, err := fields(undo, at+"/undo", "tool", "node", "with")
		if err != nil {
			return s, err
		}
		a, err := readAction(u, at+"/undo")
		if err != nil {
			return s, err
		}
		s.Undo = &a
	}
	s.Says = says(s.ID, f)
	return s, nil
}

// says is a step in one line: all that the file has of it.
func says(id string, f map[string]canonical.Value) string {
	line := id + ": " + f["tool"].Str
	for _, name := range []string{"with", "node", "each", "most", "if", "expect", "undo"} {
		if v, ok := f[name]; ok {
			line += " " + name + " " + string(v.Append(nil))
		}
	}
	return line
}

// readAction reads what is called. Which tool is written in the file and never a reference, and
// which node never comes from a step: no result leads a macro elsewhere.
func readAction(f map[string]canonical.Value, at string) (a action, err error) {
	a.Tool = capabilities.ToolID(f["tool"].Str)
	if f["tool"].Kind != canonical.String || a.Tool.Validate() != nil {
		return a, fmt.Errorf("%s/tool: the ID of a tool, such as tool.fs.read", at)
	}
	if node, ok := f["node"]; ok {
		v, err := readValue(node, at+"/node", 0)
		if err != nil {
			return a, err
		}
		fixed := v.kind == kindLiteral && node.Kind == canonical.String
		given := v.kind == kindFrom && v.path[0] == "args" && v.otherwise == nil
		if !fixed && !given {
			return a, fmt.Errorf("%s/node: the ID of a node, or a reference to an argument", at)
		}
		a.Node = &v
	}
	with, ok := f["with"]
	if !ok {
		with = canonical.Value{Kind: canonical.Object}
	}
	if with.Kind != canonical.Object {
		return a, fmt.Errorf("%s/with: an object of arguments", at)
	}
	a.With, err = readObject(with, at+"/with", 0)
	return a, err
}

// Uses returns the tools that its steps call, and their undoing, sorted.
func (m *Macro) Uses() []capabilities.ToolID {
	var all []capabilities.ToolID
	for i := range m.Steps {
		all = append(all, m.Steps[i].Tool)
		if u := m.Steps[i].Undo; u != nil {
			all = append(all, u.Tool)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
