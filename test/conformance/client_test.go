package conformance

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
)

// The official TypeScript client takes the list, and every answer to what it
// lists: it checks structured content against the output schema, of failures too.
func TestTypeScriptClient(t *testing.T) {
	dir := packages(t)
	f, token := surface(t)
	tools, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	fail := fronttest.Fail(capabilities.CodeElementObscured, map[string]any{"covered_by": "div"})
	answers := map[capabilities.ToolID]string{
		"tool.browser.snapshot": `{"snapshot":"- button \"Go\" [ref=e1]","url":"https://example.com/","title":"","snapshot_id":"s1","delta":false}`,
		"tool.browser.click":    `{"url":"https://example.com/","dialog":{"type":"alert","message":"hi"},"downloads":[{"id":"d1","name":"a.pdf","state":"done","bytes":3}]}`,
		"tool.browser.evaluate": `{"result":[null,{"a":1}]}`,
		"tool.browser.close":    `{}`,
		"tool.location.get":     `{"coords":{"latitude":1,"longitude":2,"accuracy_m":3,"altitude_m":null},"timestamp":"2026-01-01T00:00:00Z"}`,
	}
	calls := map[string][]json.RawMessage{}
	want := map[string][]string{}
	for _, d := range tools.All() {
		if !d.ModelFacing {
			continue
		}
		name, args := d.Tool.WireName(), d.Examples[0].Args
		calls[name], want[name] = []json.RawMessage{args}, []string{"error"}
		answer, answered := answers[d.Tool]
		if answered {
			if bad := d.ValidateResult([]byte(answer)); bad != nil {
				t.Fatalf("%s: %v", d.Tool, bad)
			}
			calls[name], want[name] = append(calls[name], args), append(want[name], "ok")
		}
		failed := false
		f.Dispatcher.Do(d.Tool, func(context.Context, dispatch.Request) capabilities.Result {
			if failed && answered {
				return fronttest.OK(answer)
			}
			failed = true
			return fail
		})
	}
	list, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(dir, "node_modules")
	out, err := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "node"), script, modules, open(t, f, token)+"/mcp", string(list)).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var gave map[string]json.RawMessage
	if err := json.Unmarshal(out, &gave); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if string(gave["unchecked"]) != "[]" {
		t.Errorf("without an output schema: %s", gave["unchecked"])
	}
	for name, answers := range want {
		text, _ := json.Marshal(answers)
		if string(gave[name]) != string(text) {
			t.Errorf("%s: %s, want %s", name, gave[name], text)
		}
	}
}
