package subagent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/subagent"
)

func embedded(t *testing.T) func(capabilities.ToolID) (*catalog.Descriptor, bool) {
	t.Helper()
	c, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return c.Get
}

// The examples are sub-agents of tools that are compiled in, and each declares all that any of its
// tools declares, and no more.
func TestExamples(t *testing.T) {
	names, err := filepath.Glob("../../examples/sub-agents/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	there := embedded(t)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := subagent.JSON(text)
		if err != nil {
			t.Fatal(err)
		}
		a, said, err := subagent.Offer(&tools.Provider{Name: "example", Kind: tools.KindSubAgent, Manifest: data}, there)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, id := range a.Tools {
			desc, _ := there(id)
			for _, key := range desc.Manifest.Keys() {
				if !slices.Contains(said.Tools[0].Keys, key) {
					t.Errorf("%s: %s of %s is not declared", name, key, id)
				}
			}
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	for name, text := range map[string]string{
		"no description": `{"tools":["tool.fs.read"]}`,
		"no tools":       `{"description":"d"}`,
		"itself":         `{"description":"d","tools":["tool.sub-agent.one"]}`,
		"twice":          `{"description":"d","tools":["tool.fs.read","tool.fs.read"]}`,
		"no tool":        `{"description":"d","tools":["tool.no.such"]}`,
		"unknown field":  `{"description":"d","tools":["tool.fs.read"],"model":"x"}`,
		"prefix":         `{"description":"d","tools":["tool.fs.read"],"prefix":"file"}`,
		"time":           `{"description":"d","tools":["tool.fs.read"],"timeout_ms":1e9}`,
		"a list":         `[]`,
	} {
		_, _, err := subagent.Offer(&tools.Provider{Name: "one", Kind: tools.KindSubAgent, Manifest: json.RawMessage(text)}, embedded(t))
		if capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}
