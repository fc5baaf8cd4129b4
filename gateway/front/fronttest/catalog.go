package fronttest

import (
	"encoding/json"
	"testing/fstest"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Fixture tools. Their wire names are test_simple_text and so on.
const (
	ToolNoop       capabilities.ToolID = "test.noop"
	ToolText       capabilities.ToolID = "test.simple-text"
	ToolImage      capabilities.ToolID = "test.image-content"
	ToolAudio      capabilities.ToolID = "test.audio-content"
	ToolResource   capabilities.ToolID = "test.embedded-resource"
	ToolMixed      capabilities.ToolID = "test.multiple-content-types"
	ToolProgress   capabilities.ToolID = "test.tool-with-progress"
	ToolFailing    capabilities.ToolID = "test.error-handling"
	ToolWait       capabilities.ToolID = "test.wait" // until its context ends
	ToolHidden     capabilities.ToolID = "test.hidden"
	ToolSnapshot   capabilities.ToolID = "tool.browser.snapshot"
	ToolNavigate   capabilities.ToolID = "tool.browser.navigate"
	ToolScreenshot capabilities.ToolID = "tool.browser.screenshot"
	ToolNodeList   capabilities.ToolID = "tool.node.list"
	ToolClipboard  capabilities.ToolID = "tool.desktop.clipboard-write"
)

var fixtures = []capabilities.ToolID{
	ToolNoop, ToolText, ToolImage, ToolAudio, ToolResource, ToolMixed, ToolProgress, ToolFailing, ToolWait, ToolHidden,
}

// Catalog is the embedded catalog with the fixture tools.
func Catalog() (*catalog.Catalog, error) {
	tools := make([]map[string]any, 0, len(fixtures))
	for _, id := range fixtures {
		tools = append(tools, map[string]any{
			"tool": id, "title": "Fixture", "description": "A tool for tests: " + string(id) + ".", "tags": []string{"test"},
			"input": map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
				"text": map[string]any{"type": "string", "maxLength": 2_000_000},
			}},
			"result": map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
				"text":        map[string]any{"type": "string", "maxLength": 2_000_000},
				"bytesBase64": map[string]any{"type": "string", "maxLength": 2_000_000},
			}},
		})
	}
	text, err := json.Marshal(map[string]any{
		"family": capabilities.ToolID(ToolNoop).Family(),
		"common": map[string]any{
			"version": "1.0.0", "model_facing": true, "nature": "tool", "side_effects": "none",
			"categories": map[string]any{}, "evidence": map[string]any{},
			"defaults":    map[string]any{"isolation_class": "t0", "requires_approval": false, "cache_eligible": false},
			"routing":     map[string]any{"target": "gateway"},
			"idempotency": map[string]any{"mode": "none"},
			"limits":      map[string]any{"timeout_ms": 30000, "max_timeout_ms": 600000, "max_result_bytes": 1 << 20, "max_blob_bytes": 1 << 20},
			"annotations": map[string]any{"read_only": true, "destructive": false, "idempotent": true, "open_world": false},
			"consent":     "none",
		},
		"tools": tools,
	})
	if err != nil {
		return nil, err
	}
	return catalog.Load(fstest.MapFS{"test.json": {Data: text}})
}
