package provider

import (
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// Bounds of a result.
const (
	maxResultText = 512 << 10
	maxLinks      = 100
	maxBlob       = 16 << 20
)

// resultOf makes a call's result of what the server answered. The first picture or sound comes
// as bytes; others are said to be there.
func resultOf(r *mcp.CallToolResult, secret *credentials) (capabilities.Output, error) {
	result := map[string]any{}
	out := capabilities.Output{Result: result, Effect: capabilities.EffectUnverifiable}
	var text []string
	var links []any
	bytes := func(data []byte, mime string) {
		switch {
		case len(data) > maxBlob:
			text = append(text, "(bytes that are too large: "+secret.said(mime, maxSaid)+")")
		case len(out.Blobs) > 0:
			text = append(text, "(one more: "+secret.said(mime, maxSaid)+")")
		default:
			out.Blobs = []capabilities.Blob{{Field: tools.FieldBytes, MIME: secret.said(mime, 128), Bytes: data}}
			result["mime"] = out.Blobs[0].MIME
		}
	}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			text = append(text, strings.ToValidUTF8(c.Text, "\uFFFD"))
		case *mcp.ImageContent:
			bytes(c.Data, c.MIMEType)
		case *mcp.AudioContent:
			bytes(c.Data, c.MIMEType)
		case *mcp.ResourceLink:
			if len(links) < maxLinks {
				links = append(links,
					map[string]any{"uri": secret.said(c.URI, 2048), "name": secret.said(c.Name, 256), "mime": secret.said(c.MIMEType, 128)})
			}
		case *mcp.EmbeddedResource:
			if c.Resource != nil && len(c.Resource.Blob) > 0 {
				bytes(c.Resource.Blob, c.Resource.MIMEType)
			} else if c.Resource != nil {
				text = append(text, strings.ToValidUTF8(c.Resource.Text, "\uFFFD"))
			}
		}
	}
	whole := strings.Join(text, "\n")
	if r.IsError {
		return capabilities.Output{
			Effect: capabilities.EffectUnverifiable,
		}, capabilities.Errorf(capabilities.CodeExecutionFailed, "the server: %s", secret.said(whole, maxSaid))
	}
	if len(whole) > maxResultText {
		return out, capabilities.Errorf(capabilities.CodeResultTooLarge, "the server answered with more than %d bytes of text", maxResultText)
	}
	if whole != "" {
		result[tools.FieldText] = whole
	}
	if len(links) > 0 {
		result[tools.FieldLinks] = links
	}
	if r.StructuredContent != nil {
		data, err := canonical.Marshal(r.StructuredContent)
		if err != nil || len(data) > maxResultText {
			return out, capabilities.Wrap(capabilities.CodeResultTooLarge, err, "The server's structured result cannot be taken.")
		}
		result[tools.FieldData] = json.RawMessage(data)
	}
	return out, nil
}
