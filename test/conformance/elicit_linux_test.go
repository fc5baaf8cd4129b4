package conformance

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/form"
)

// The reference server asks a person its every kind of field. They are shown by their types, what
// is filled in by hand is read as them, and the server takes it and goes on.
func TestReferenceServerAsks(t *testing.T) {
	h := hosted(t, "everything", nil)
	var tool capabilities.CapabilityID // its name is cut: the wire takes 40 characters
	list, _ := h.Tools()
	for _, d := range list {
		if d.Title == "Trigger Elicitation Request Tool" {
			tool = d.NodeCapability()
		}
	}
	var seen *form.Form
	ask := func(action capabilities.Elicited, values map[string]any) (string, error) {
		out, err := h.Handle(t.Context(), capabilities.Invocation{
			Call: "c2", Capability: tool, Args: json.RawMessage(`{}`), Progress: func(capabilities.Progress) {}, Observe: func(string, string) {},
			Elicit: func(_ context.Context, asked json.RawMessage) (capabilities.Elicited, json.RawMessage, error) {
				var err error
				if seen, err = form.Decode(asked); err != nil || action != capabilities.ElicitAccept {
					return action, nil, err
				}
				content, err := seen.Fill(values)
				return action, content, err
			},
		})
		return textIn(out), err
	}
	said, err := ask(capabilities.ElicitAccept, map[string]any{"name": "Ann Example", "integer": "7", "check": "true", "untitledMultipleSelectEnum": []string{"Piano", "Bass"}, "titledSingleSelectEnum": "hero-2"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Ann Example", "7", "Piano", "hero-2"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in %s", want, said)
		}
	}
	kinds := map[form.Kind]bool{}
	for _, f := range seen.Fields {
		kinds[f.Kind] = true
	}
	if len(kinds) != 6 || len(seen.Fields) < 10 {
		t.Errorf("%+v", seen)
	}
	for action, want := range map[capabilities.Elicited]string{capabilities.ElicitDecline: "decline", capabilities.ElicitCancel: "cancel"} {
		if said, err := ask(action, nil); err != nil || !strings.Contains(said, want) {
			t.Errorf("%s: %s, %v", action, said, err)
		}
	}
}
