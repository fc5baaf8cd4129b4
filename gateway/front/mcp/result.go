package mcp

import (
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
)

// maxDetailText bounds what a model reads of an error's details.
const maxDetailText = 4 << 10

// callMeta is what a result's _meta says about the call.
type callMeta struct {
	Call         capabilities.CallID     `json:"call_id,omitempty"`
	Tool         capabilities.ToolID     `json:"tool_id"`
	Status       capabilities.Status     `json:"status"`
	Routing      *capabilities.Routing   `json:"routing,omitempty"`
	Envelope     string                  `json:"envelope_hash,omitempty"`
	Effect       capabilities.Effect     `json:"effect,omitempty"`
	Evidence     string                  `json:"evidence,omitempty"`
	Untrusted    bool                    `json:"untrusted,omitempty"`
	Deduplicated bool                    `json:"deduplicated,omitempty"`
	DurationMS   float64                 `json:"duration_ms"`
	Artifacts    []capabilities.Artifact `json:"artifacts,omitempty"`
}

// errorBody is the structured content of a call that did not succeed.
type errorBody struct {
	Code      capabilities.Code   `json:"code"`
	Message   string              `json:"message"`
	Hint      string              `json:"hint,omitempty"`
	Retryable bool                `json:"retryable"`
	Call      capabilities.CallID `json:"call_id,omitempty"`
	Details   any                 `json:"details,omitempty"`
}

// untrustedMark stands in results with third-party content; instructions say what it means.
const untrustedMark = "third-party content"

// project returns the MCP form of a result; plain leaves structured content out and writes the text
// in the form that a model reads best.
func project(r *capabilities.Result, plain bool) *sdk.CallToolResult {
	out := &sdk.CallToolResult{Meta: sdk.Meta{metaCall: callMeta{
		Call: r.Call, Tool: r.Tool, Status: r.Status, Routing: r.Routing, Envelope: r.EnvelopeHash, Effect: r.Effect, Evidence: r.Evidence,
		Untrusted: r.Untrusted, Deduplicated: r.Deduplicated, DurationMS: r.DurationMS, Artifacts: r.Artifacts,
	}}}
	if r.Status != capabilities.StatusOK {
		out.IsError = true
		said := capabilities.Error{Code: r.Code, Message: r.Message, Hint: r.Hint, Action: r.Action}
		body := errorBody{
			Code: r.Code, Message: said.PublicMessage(), Hint: worded(said.PublicHint(), said.PublicAction()), Retryable: r.Retryable, Call: r.Call,
			Details: front.WordDetails(r.Details, words),
		}
		details, err := json.Marshal(body.Details)
		if err != nil { // no JSON: a defect of its maker, not the client's trouble
			body.Details, details = nil, nil
		}
		if !plain {
			out.StructuredContent = map[string]errorBody{"error": body}
		}
		out.Content = []sdk.Content{&sdk.TextContent{Text: errorText(&body, details)}}
		return out
	}
	output := r.Output
	if len(output) == 0 {
		output = json.RawMessage(`{}`)
	}
	if plain {
		out.Content = plainContent(r, output)
		return out
	}
	// Both forms, as MCP asks of a tool with an output schema: clients hand their model
	// one of the two, and which is not known here. The schema has "snapshot" in it, so a
	// large outline cannot go by one of them alone.
	out.StructuredContent = output
	out.Content = make([]sdk.Content, 1, 2+len(r.Blobs))
	out.Content[0] = &sdk.TextContent{Text: string(output)}
	for i := range r.Blobs {
		out.Content = append(out.Content, blobContent(r, &r.Blobs[i]))
	}
	if note := effectNote(r); note != "" {
		out.Content = append(out.Content, &sdk.TextContent{Text: note})
	}
	return out
}

// modelImages are the forms that models take; clients fail on other image content,
// such as SVG that a page sent.
var modelImages = map[string]bool{"png": true, "jpeg": true, "gif": true, "webp": true}

// blobContent returns captured bytes their own kind of content.
func blobContent(r *capabilities.Result, b *capabilities.Blob) sdk.Content {
	switch kind, form, _ := strings.Cut(b.MIME, "/"); {
	case kind == "image" && modelImages[form]:
		return &sdk.ImageContent{Data: b.Bytes, MIMEType: b.MIME}
	case kind == "audio":
		return &sdk.AudioContent{Data: b.Bytes, MIMEType: b.MIME}
	}
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{
		URI: "handrail://call/" + string(r.Call) + "/" + b.Field, MIMEType: b.MIME, Blob: b.Bytes,
	}}
}

// errorText is what a model reads: what went wrong, what to do, and where.
func errorText(e *errorBody, details []byte) string {
	var b strings.Builder
	b.WriteString(string(e.Code) + ": " + e.Message)
	if e.Hint != "" {
		b.WriteString("\nHint: " + e.Hint)
	}
	if e.Retryable {
		b.WriteString("\nRetryable: the same call may succeed later")
	}
	if e.Details != nil {
		if len(details) > maxDetailText {
			details = append(details[:maxDetailText:maxDetailText], "…"...)
		}
		b.WriteString("\nDetails: " + strings.ToValidUTF8(string(details), ""))
	}
	return b.String()
}

// effectNote says to the model what _meta says to programs: how far the effect was
// verified (promise 6 of docs/architecture.md), and that the result holds third-party content.
func effectNote(r *capabilities.Result) string {
	var parts []string
	if r.Effect != "" {
		text := "effect " + string(r.Effect)
		if r.Evidence != "" {
			text += " (" + r.Evidence + ")"
		}
		parts = append(parts, text)
	}
	if r.Untrusted {
		parts = append(parts, untrustedMark)
	}
	if r.Hint != "" {
		parts = append(parts, "hint: "+worded(r.Hint, r.Action))
	}
	if len(parts) == 0 {
		return ""
	}
	return "[handrail] " + strings.Join(parts, "; ")
}
