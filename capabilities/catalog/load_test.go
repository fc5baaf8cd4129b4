package catalog

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/handrail-dev/handrail/capabilities"
)

// family makes a fixture file of one tool, with changes.
func family(t *testing.T, change map[string]any) fstest.MapFS {
	t.Helper()
	tool := map[string]any{
		"capability": "tyrum.test.echo", "tool": "tool.test.echo", "title": "Echo", "description": "Echoes.",
		"version": "1.0.0", "tags": []string{"test"}, "side_effects": "none", "model_facing": true, "nature": "tool",
		"input":      json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string","maxLength":64}}}`),
		"result":     json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string","maxLength":64}}}`),
		"categories": map[string]any{}, "defaults": map[string]any{"isolation_class": "t0"},
		"evidence": map[string]any{"args": []string{"/text"}}, "idempotency": map[string]any{"mode": "none"},
		"routing":     map[string]any{"target": "node", "implicit": []string{"attached_node"}, "timeout_arg": "timeout_ms"},
		"limits":      map[string]any{"timeout_ms": 1000, "max_timeout_ms": 600000, "max_result_bytes": 4096},
		"annotations": map[string]any{"read_only": true}, "consent": "none",
	}
	for key, value := range change {
		tool[key] = value
	}
	text, err := json.Marshal(map[string]any{"family": "test", "tools": []any{tool}})
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{"test.json": {Data: text}}
}

func TestOverlayAddsAndNeverShadows(t *testing.T) {
	c, err := Load(family(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	d, ok := c.Get("tool.test.echo")
	if !ok || len(c.All()) != len(embeddedCatalog(t).All())+1 || c.Hash() == embeddedCatalog(t).Hash() {
		t.Fatal("the overlay is not there")
	}
	args, bad, err := d.SplitArgs([]byte(`{"text":"x","node_id":"n1"}`))
	if err != nil || bad != nil || string(args.Canonical) != `{"text":"x"}` {
		t.Errorf("%+v %v %v", args, bad, err)
	}
	if _, err := Load(family(t, nil), family(t, nil)); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("a duplicate: %v", err)
	}
	// tool.test.e-cho and tool.test.e.cho would both be tool_test_e_cho.
	_, err = Load(
		family(t, map[string]any{"capability": "tyrum.test.e-cho", "tool": "tool.test.e-cho"}),
		family(t, map[string]any{"capability": "tyrum.test.e.cho", "tool": "tool.test.e.cho"}),
	)
	if err == nil || !strings.Contains(err.Error(), "wire name") {
		t.Errorf("a wire name twice: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	schema := func(properties string) json.RawMessage {
		return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` + properties + `}}`)
	}
	for _, c := range []struct {
		says   string
		change map[string]any
	}{
		{"must mirror", map[string]any{"tool": "tool.test.other"}},
		{"family", map[string]any{"capability": "tyrum.other.echo", "tool": "tool.other.echo"}},
		{"must match", map[string]any{"capability": "tyrum.test.Echo", "tool": "tool.test.Echo"}},
		{"wire name is longer", map[string]any{"capability": "tyrum.test." + strings.Repeat("e", 60), "tool": "tool.test." + strings.Repeat("e", 60)}},
		{"plain", map[string]any{"description": "Echo\u202es."}},
		{"plain", map[string]any{"title": "A\nB"}},
		{"tags are required", map[string]any{"tags": []string{}}},
		{"x.y.z", map[string]any{"version": "1"}},
		{"side_effects", map[string]any{"side_effects": "some"}},
		{"guarded", map[string]any{"side_effects": "local", "annotations": map[string]any{}}},
		{"read_only", map[string]any{"side_effects": "local"}},
		{"nature", map[string]any{"nature": ""}},
		{"consent", map[string]any{"consent": ""}},
		{"isolation_class", map[string]any{"defaults": map[string]any{"isolation_class": "t9"}}},
		{"without the category", map[string]any{"categories": map[string]any{"data": []string{"data.read"}}}},
		{"cacheable", map[string]any{
			"categories": map[string]any{"privileged": []string{"secret.read"}}, "defaults": map[string]any{"isolation_class": "t3", "cache_eligible": true},
		}},
		{"transport detail", map[string]any{"input": schema(`"text":{"type":"string","maxLength":1},"op":{"type":"boolean"}`)}},
		{"transport detail", map[string]any{"input": schema(`"text":{"type":"string","maxLength":1},"a":{"type":"object","additionalProperties":false,"properties":{"action_name":{"type":"boolean"}}}`)}},
		{"owns timeout_ms", map[string]any{"input": schema(`"text":{"type":"string","maxLength":1},"timeout_ms":{"type":"integer"}`)}},
		{"owns node_id", map[string]any{"input": schema(`"text":{"type":"string","maxLength":1},"node_id":{"type":"string","maxLength":1}`)}},
		{"evidence names", map[string]any{"evidence": map[string]any{"args": []string{"/nothing"}}}},
		{"record the secret", map[string]any{"evidence": map[string]any{"args": []string{"/text"}, "secret": []string{"/text"}}}},
		{"routing.target", map[string]any{"routing": map[string]any{"target": "moon"}}},
		{"routing.implicit", map[string]any{"routing": map[string]any{"target": "node", "implicit": []string{"most_recent"}}}},
		{"routing.via", map[string]any{"capability": "", "routing": map[string]any{"target": "gateway", "via": "tyrum.test.nothing"}}},
		{"no capability", map[string]any{"routing": map[string]any{"target": "gateway"}}},
		{"idempotency", map[string]any{"idempotency": map[string]any{"mode": "return_cached_result"}}},
		{"limits", map[string]any{"limits": map[string]any{"timeout_ms": 5, "max_timeout_ms": 4, "max_result_bytes": 1}}},
		{"example", map[string]any{"examples": []any{map[string]any{"title": "x", "args": map[string]any{"y": 1}}}}},
		{"unknown field", map[string]any{"sideeffects": "none"}},
		{"leads nowhere", map[string]any{"result": json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/nothing"}}}`)}},
	} {
		_, err := Load(family(t, c.change))
		if capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.change, err, c.says)
		}
	}
	for name, text := range map[string]string{
		"not JSON": `{`, "twice": `{"family":"a","family":"b","tools":[]}`, "no tools": `{"family":"a"}`, "stray": `{"family":"a","tools":[],"x":1}`,
	} {
		if _, err := Load(fstest.MapFS{"x.json": {Data: []byte(text)}}); err == nil {
			t.Errorf("%s was loaded", name)
		}
	}
}
