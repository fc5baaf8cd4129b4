package provider

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// A provider's record says what its tools reach: requests, folders, hosts, the names of secrets,
// and that a tool may destroy something; long lists are counted.
func TestThroughSaysTheRecord(t *testing.T) {
	yes, no := true, false
	counts := tools.RemoteTool{Name: "count", Description: "Counts.", Runs: []string{"wc", "-w"}, ReadOnly: &yes}
	removes := tools.RemoteTool{
		Name: "deletePet", Description: "Deletes.", Destructive: &yes,
		Request: &tools.Request{Method: "DELETE", Server: "http://pets.example", Path: "/pets/{petId}"},
	}
	looks := tools.RemoteTool{Name: "look", Description: "Looks.", Destructive: &no}
	for name, c := range map[string]struct {
		provider tools.Provider
		tool     tools.RemoteTool
		want     []string
	}{
		"a command": {
			tools.Provider{Name: "words", Kind: tools.KindCommand, Manifest: json.RawMessage(`{}`), Read: []string{"/srv/texts"}}, counts,
			[]string{"provider words (command wc)", "reads /srv/texts", "no network"},
		},
		"a command without anything": {
			tools.Provider{Name: "words", Kind: tools.KindCommand, Manifest: json.RawMessage(`{}`)}, counts,
			[]string{"provider words (command wc)", "no folders", "no network"},
		},
		"a request": {
			tools.Provider{
				Name: "petstore", Kind: tools.KindOpenAPI, Manifest: json.RawMessage(`{}`),
				Env: []tools.Credential{{Name: "key", Secret: "pets"}}, Headers: []tools.Credential{{Name: "X-Other", Secret: "pets"}},
			}, removes,
			[]string{"provider petstore (HTTP API)", "sends DELETE to http://pets.example/pets/{petId}", "it may destroy something", "gets the secret pets"},
		},
		"a server elsewhere": {
			tools.Provider{Name: "wiki", Kind: tools.KindMCP, URL: "https://wiki.example:8443/mcp?key=hunter2"}, looks,
			[]string{"provider wiki (MCP server at https://wiki.example:8443)"},
		},
		"a server that is started": {
			tools.Provider{
				Name: "files", Kind: tools.KindMCP, Command: []string{"npx", "files"}, Write: []string{"/a", "/b", "/c", "/d", "/e", "/f"}, Net: []string{"example.com"},
				Env: []tools.Credential{{Name: "A", Secret: "one"}, {Name: "B", Secret: "two"}},
			}, looks,
			[]string{"provider files (MCP server, command npx)", "reads and writes /a, /b, /c, /d and 2 more", "connects to example.com", "gets the secrets one, two"},
		},
		"a satellite": {
			tools.Provider{Name: "voice", Kind: tools.KindSatellite}, looks,
			[]string{"provider voice (satellite, on a machine of its own)"},
		},
	} {
		tool := described(t, c.provider, c.tool)
		p := Provider{Provider: c.provider}
		if got := p.through(&tool); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A macro's steps are listed up to a bound, and the rest counted.
func TestThroughListsTheSteps(t *testing.T) {
	var steps []string
	for i := range maxSteps + 3 {
		steps = append(steps, fmt.Sprintf(`{"id":"s%d","tool":"tool.fs.read","with":{"path":{"from":"/args/path"}}}`, i))
	}
	record := tools.Provider{Name: "many", Kind: tools.KindMacro, Manifest: json.RawMessage(`{"description":"d","args":{"path":{"type":"string"}},"steps":[` + strings.Join(steps, ",") + `]}`)}
	no := false
	tool := described(t, record, tools.RemoteTool{Name: "many", Description: "d", Destructive: &no, Uses: []capabilities.ToolID{"tool.fs.read"}})
	p := Provider{Provider: record}
	got := p.through(&tool)
	if len(got) != maxSteps+2 || got[1] != "step s0: tool.fs.read" || got[len(got)-1] != "and 3 more" {
		t.Errorf("%q", got)
	}
}
