package macro

import (
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/gateway/registry"
)

// Plan returns the calls of a run with those arguments, as far as they are known before it: what
// is made of a step's output is not. A step under a condition, of a list or for undoing may
// not come.
func (m *Macro) Plan(args json.RawMessage) []registry.Planned {
	w, err := begin(args)
	if err != nil {
		return nil
	}
	var all []registry.Planned
	add := func(id string, a *action, maybe bool) {
		p := registry.Planned{Name: id, Tool: a.Tool, Maybe: maybe}
		if a.Node != nil {
			if node, err := a.Node.eval(w); err == nil {
				text, _ := node.(string)
				p.Node = capabilities.NodeID(text)
			}
		}
		if a.With.fromArgs() {
			if raw, err := a.args(w); err == nil {
				p.Args = raw
			}
		}
		all = append(all, p)
	}
	for i := range m.Steps {
		s := &m.Steps[i]
		add(s.ID, &s.action, len(s.If) > 0 || s.Each != nil)
		if s.Undo != nil {
			add(s.ID+" (undo)", s.Undo, true)
		}
	}
	return all
}

// begin is what a run knows before its first step.
func begin(args json.RawMessage) (world, error) {
	var given map[string]any
	if err := json.Unmarshal(args, &given); err != nil {
		return nil, capabilities.AsError(err)
	}
	return world{"args": given, "steps": map[string]any{}}, nil
}

// args is what the call of an action is made with.
func (a *action) args(w world) (json.RawMessage, error) {
	v, err := a.With.eval(w)
	if err != nil {
		return nil, err
	}
	fields, _ := v.(map[string]any)
	if a.Node != nil {
		node, err := a.Node.eval(w)
		if err != nil {
			return nil, err
		}
		fields["node_id"] = node
	}
	raw, err := canonical.Marshal(fields)
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "the arguments are no JSON that a call can have")
	}
	return raw, nil
}
