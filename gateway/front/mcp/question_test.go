package mcp

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/consent"
)

// The person at the client is told what carries the call out before its arguments, which may be
// as long as an agent makes them.
func TestTheQuestionSaysWhatItGoesThrough(t *testing.T) {
	a := consent.Approval{Tool: "tool.petstore.delete-pet", Title: "Delete", Through: []string{"provider petstore (HTTP API)", "sends DELETE to http://pets.example/pets/{petId}"}, Arguments: map[string]any{"x": strings.Repeat("x", 10000)}}
	if text := questionText(&a); !strings.Contains(text, "\nThrough: provider petstore (HTTP API); sends DELETE to http://pets.example/pets/{petId}\n") {
		t.Errorf("%.500s", text)
	}
}
