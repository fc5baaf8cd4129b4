package mcp

import (
	"encoding/json"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Keys of _meta that are ours (reverse DNS, as MCP asks).
const (
	metaTool    = "dev.handrail/tool_id"    // on a tool: its canonical ID
	metaVersion = "dev.handrail/version"    // on a tool: its descriptor's version
	metaCall    = "dev.handrail/call"       // on a result: what is known about the call
	metaRequest = "dev.handrail/request_id" // on a request: makes a retry recognisable
)

// errorSchema describes structured content of a call that did not succeed.
// Clients validate structured content of failures too, so that the output schema
// must admit it.
const errorSchema = `{"type":"object","properties":{"error":{"type":"object"}},"required":["error"],"additionalProperties":false}`

type toolKey struct {
	d      *catalog.Descriptor
	dotted bool
}

// tool gives the MCP form of a descriptor, made once and shared by all views.
func (s *Server) tool(d *catalog.Descriptor, dotted bool) (*sdk.Tool, error) {
	key := toolKey{d, dotted}
	if t, ok := s.tools.Load(key); ok {
		return t.(*sdk.Tool), nil
	}
	input := d.ModelInput()
	for _, schema := range []json.RawMessage{input, d.Result} {
		var root struct {
			Type string `json:"type"`
		}
		// The SDK panics on anything else.
		if err := json.Unmarshal(schema, &root); err != nil || root.Type != "object" {
			return nil, errors.Join(errors.New("schema is not one of an object"), err)
		}
	}
	name := d.Tool.WireName()
	if dotted {
		name = string(d.Tool)
	}
	output, err := outputSchema(d.Result)
	if err != nil {
		return nil, err
	}
	destructive, open := d.Annotations.Destructive, d.Annotations.OpenWorld
	t, _ := s.tools.LoadOrStore(key, &sdk.Tool{
		Name:         name,
		Title:        d.Title,
		Description:  d.Description,
		InputSchema:  input,
		OutputSchema: output,
		Annotations: &sdk.ToolAnnotations{
			Title:           d.Title,
			ReadOnlyHint:    d.Annotations.ReadOnly,
			DestructiveHint: &destructive,
			IdempotentHint:  d.Annotations.Idempotent,
			OpenWorldHint:   &open,
		},
		Meta: sdk.Meta{metaTool: string(d.Tool), metaVersion: d.Version},
	})
	return t.(*sdk.Tool), nil
}

// outputSchema admits a tool's result and, beside it, the error form. What the
// result's schema refers to has to be found at the new root.
func outputSchema(result json.RawMessage) (json.RawMessage, error) {
	var root map[string]json.RawMessage
	if err := json.Unmarshal(result, &root); err != nil {
		return nil, err
	}
	defs := root["$defs"]
	delete(root, "$defs")
	inner, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Type  string            `json:"type"`
		AnyOf []json.RawMessage `json:"anyOf"`
		Defs  json.RawMessage   `json:"$defs,omitempty"`
	}{"object", []json.RawMessage{inner, json.RawMessage(errorSchema)}, defs})
}
