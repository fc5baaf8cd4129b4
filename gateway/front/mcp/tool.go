package mcp

import (
	"encoding/json"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Keys of _meta that are ours (reverse DNS, as MCP asks). A tool carries none: its
// ID is known from its name (instructions say how), and every byte of the list is
// paid for in every turn of every agent.
const (
	metaCall    = "dev.handrail/call"       // on a result: what is known about the call
	metaRequest = "dev.handrail/request_id" // on a request: makes a retry recognisable
	metaTrace   = "traceparent"             // on a request: where its caller stands in a trace (W3C)
)

type toolKey struct {
	d         *catalog.Descriptor
	dotted    bool
	inputOnly bool
	asks      bool // with purpose
}

// tool returns the MCP form of a descriptor, made once and shared by all views.
func (s *Server) tool(d *catalog.Descriptor, dotted, inputOnly, asks bool) (*sdk.Tool, error) {
	key := toolKey{d, dotted, inputOnly, asks}
	if t, ok := s.tools.Load(key); ok {
		return t.(*sdk.Tool), nil
	}
	made := &sdk.Tool{
		Name: d.Tool.WireName(), Description: d.Description,
		InputSchema: d.ModelInput(asks), Annotations: hints(d.Annotations),
	}
	if dotted {
		made.Name = string(d.Tool)
	}
	schemas := []json.RawMessage{d.ModelInput(asks)}
	if !inputOnly {
		made.Title = d.Title // for people; who wants inputs only shows the list to a model
		// True of failures as well: clients check their structured content, too.
		made.OutputSchema = d.ModelResult()
		schemas = append(schemas, d.ModelResult())
	}
	for _, schema := range schemas {
		var root struct {
			Type string `json:"type"`
		}
		// The SDK panics on anything else.
		if err := json.Unmarshal(schema, &root); err != nil || root.Type != "object" {
			return nil, errors.Join(errors.New("schema is not one of an object"), err)
		}
	}
	t, _ := s.tools.LoadOrStore(key, made)
	return t.(*sdk.Tool), nil
}

// hints returns a tool's annotations; nil if they are what the protocol takes for
// granted (not read-only, destructive, not idempotent, open). Of a tool that only
// reads, the protocol does not ask for the two in the middle.
func hints(a catalog.Annotations) *sdk.ToolAnnotations {
	var h sdk.ToolAnnotations
	if h.ReadOnlyHint = a.ReadOnly; !a.ReadOnly {
		h.IdempotentHint = a.Idempotent
		if !a.Destructive {
			h.DestructiveHint = new(bool)
		}
	}
	if !a.OpenWorld {
		h.OpenWorldHint = new(bool)
	}
	if h == (sdk.ToolAnnotations{}) {
		return nil
	}
	return &h
}
