package pipeline

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/agent/worker/gate"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/canonical/yaml"
)

// Bounds.
const (
	MaxFile  = yaml.MaxBytes
	MaxSteps = 32
)

// Pipeline is a file.
type Pipeline struct {
	Description string
	Intent      intent.Name // what it may do: the gate opens the tools of it, and no others
	Steps       []Step
	Output      Value // the text that the turn ends with
}

// Step is one step; exactly one of Tool, Harness and Code is set.
type Step struct {
	ID      string
	Tool    capabilities.ToolID
	Harness *Harness
	Code    string
	With    Value // arguments of a tool or of code; an object
	// Goes says that the run goes on where a call of the step, or what it returned, was kept back: its
	// result then has kept_back, the reason. Default: the run ends.
	Goes bool
}

// Harness is one turn of the harness.
type Harness struct {
	Task  Value
	Tools []capabilities.ToolID // that it is offered
	Sees  []string              // steps whose results it is shown, as data
}

// Tools are all that its steps may call, each once.
func (p *Pipeline) Tools() (all []capabilities.ToolID) {
	for _, s := range p.Steps {
		used := []capabilities.ToolID{s.Tool}
		if s.Harness != nil {
			used = s.Harness.Tools
		}
		for _, id := range used {
			if id != "" && !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all
}

// Asks reports whether any step is one of the harness.
func (p *Pipeline) Asks() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Harness != nil })
}

var idFormat = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Read reads and checks a file, YAML or JSON: CodeInvalidRequest, which names the place.
func Read(text []byte) (*Pipeline, error) {
	data, err := yaml.JSON(text)
	if err != nil {
		return nil, err
	}
	doc, err := canonical.Decode(data, canonical.Limits{MaxBytes: 2 * MaxFile})
	if err != nil {
		return nil, err
	}
	p := &Pipeline{}
	if err := p.read(doc); err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s", capabilities.Clip(capabilities.Printable(err.Error()), 500)).
			WithHint("A pipeline has an intent, steps of a tool, of the harness or of code, and an output.")
	}
	return p, nil
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

func (p *Pipeline) read(doc canonical.Value) error {
	f, err := fields(doc, "pipeline", "description", "intent", "steps", "output")
	if err != nil {
		return err
	}
	p.Description, p.Intent = f["description"].Str, intent.Name(f["intent"].Str)
	if _, ok := intent.Get(p.Intent); !ok {
		return fmt.Errorf("intent: there is no intent %.64q", p.Intent)
	}
	steps := f["steps"]
	if steps.Kind != canonical.Array || len(steps.Items) == 0 || len(steps.Items) > MaxSteps {
		return fmt.Errorf("steps: a list of 1 to %d", MaxSteps)
	}
	for i, item := range steps.Items {
		s, err := p.step(item, fmt.Sprintf("steps/%d", i))
		if err != nil {
			return err
		}
		p.Steps = append(p.Steps, s)
	}
	out, ok := f["output"]
	if !ok {
		return fmt.Errorf("output: what the turn ends with, such as {from: /steps/%s/text}", p.Steps[0].ID)
	}
	p.Output, err = p.value(out, "output", 0)
	return err
}

// step reads one step, whose references are to the steps before it.
func (p *Pipeline) step(v canonical.Value, at string) (s Step, err error) {
	f, err := fields(v, at, "id", "tool", "harness", "code", "with", "kept_back")
	if err != nil {
		return s, err
	}
	if s.ID = f["id"].Str; !idFormat.MatchString(s.ID) {
		return s, fmt.Errorf("%s/id: must match %s", at, idFormat)
	}
	if p.has(s.ID) {
		return s, fmt.Errorf("%s/id: %s is there twice", at, s.ID)
	}
	kinds := 0
	for _, kind := range []string{"tool", "harness", "code"} {
		if _, ok := f[kind]; ok {
			kinds++
		}
	}
	if kinds != 1 {
		return s, fmt.Errorf("%s: a step has exactly one of tool, harness and code", at)
	}
	if v, ok := f["kept_back"]; ok {
		_, code := f["code"]
		if s.Goes = v.Str == "go"; code || !s.Goes && v.Str != "stop" {
			return s, fmt.Errorf("%s/kept_back: go or stop, of a step that calls tools", at)
		}
	}
	if h, ok := f["harness"]; ok {
		if _, ok := f["with"]; ok {
			return s, fmt.Errorf("%s/with: belongs to a tool or to code", at)
		}
		s.Harness, err = p.harness(h, at+"/harness")
		return s, err
	}
	s.Tool, s.Code = capabilities.ToolID(f["tool"].Str), f["code"].Str
	if _, ok := f["tool"]; ok {
		err = p.allows(s.Tool, at+"/tool")
	} else if codes[s.Code] == nil {
		err = fmt.Errorf("%s/code: there is no code %.64q; known: %s", at, s.Code, strings.Join(names(), ", "))
	}
	if err != nil {
		return s, err
	}
	with, ok := f["with"]
	if !ok {
		with = canonical.Value{Kind: canonical.Object}
	}
	if with.Kind != canonical.Object {
		return s, fmt.Errorf("%s/with: an object of arguments", at)
	}
	s.With, err = p.object(with, at+"/with", 0)
	return s, err
}

func (p *Pipeline) harness(v canonical.Value, at string) (*Harness, error) {
	f, err := fields(v, at, "task", "tools", "sees")
	if err != nil {
		return nil, err
	}
	task, ok := f["task"]
	if !ok {
		return nil, fmt.Errorf("%s/task: what it is to do, in words", at)
	}
	h := &Harness{}
	if h.Task, err = p.value(task, at+"/task", 0); err != nil {
		return nil, err
	}
	if h.Task.steps() { // what a step returned is data, and no instruction
		return nil, fmt.Errorf("%s/task: a result does not stand in a task; name its step in sees", at)
	}
	for _, name := range []string{"tools", "sees"} {
		if v, ok := f[name]; ok && v.Kind != canonical.Array {
			return nil, fmt.Errorf("%s/%s: a list was expected", at, name)
		}
	}
	for i, item := range f["tools"].Items {
		if err := p.allows(capabilities.ToolID(item.Str), fmt.Sprintf("%s/tools/%d", at, i)); err != nil {
			return nil, err
		}
		h.Tools = append(h.Tools, capabilities.ToolID(item.Str))
	}
	for i, item := range f["sees"].Items {
		j := slices.IndexFunc(p.Steps, func(s Step) bool { return s.ID == item.Str })
		if j < 0 || p.Steps[j].Tool == "" {
			return nil, fmt.Errorf("%s/sees/%d: an earlier step that calls a tool", at, i)
		}
		h.Sees = append(h.Sees, item.Str)
	}
	return h, nil
}

// allows refuses a tool that the gate does not open for the file's intent.
func (p *Pipeline) allows(id capabilities.ToolID, at string) error {
	if id.Validate() != nil {
		return fmt.Errorf("%s: the ID of a tool, such as tool.fs.read", at)
	}
	if !gate.Decide(intent.To(p.Intent, 1)).Allows(id) {
		return fmt.Errorf("%s: the intent %s does not use %s", at, p.Intent, id)
	}
	return nil
}

func (p *Pipeline) has(id string) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.ID == id })
}

// World is what a run knows: its task, and what its steps returned.
type World struct {
	Task  string
	Steps map[string]any
}

// Note keeps what a step returned.
func (w *World) Note(id string, output json.RawMessage) error {
	var v any
	if len(output) > 0 {
		if err := json.Unmarshal(output, &v); err != nil {
			return fmt.Errorf("%s: its result cannot be read: %w", id, err)
		}
	}
	w.Steps[id] = v
	return nil
}
