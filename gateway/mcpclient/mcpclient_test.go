package mcpclient_test

import (
	"encoding/json"
	"testing"

	"github.com/handrail-dev/handrail/gateway/mcpclient"
)

// An entry to be pasted parses, and stands where the client looks for it.
func TestEntry(t *testing.T) {
	for _, c := range mcpclient.All() {
		entries := map[string][]mcpclient.Field{"stdio": c.Stdio("handrail", []string{"mcp", "--x", "a \"b\" & <c>"}, map[string]string{"HANDRAIL_TOKEN": "hrt_1"})}
		if c.Remote() {
			entries["http"] = c.HTTP("https://gw.example/", "hrt_1")
		} else if c.HTTP("https://gw.example", "hrt_1") != nil {
			t.Errorf("%s takes an address", c.Name)
		}
		for way, fields := range entries {
			text := c.Entry(fields)
			if c.Format == mcpclient.TOML {
				continue // below
			}
			var got map[string]map[string]map[string]any
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Errorf("%s, %s: %v\n%s", c.Name, way, err, text)
				continue
			}
			entry := got[c.Path[0]][c.Path[1]]
			for _, f := range fields {
				want, _ := json.Marshal(f.Value)
				have, _ := json.Marshal(entry[f.Name])
				if string(want) != string(have) {
					t.Errorf("%s, %s: %s is %s, not %s", c.Name, way, f.Name, have, want)
				}
			}
		}
	}
	codex, _ := mcpclient.Named("codex")
	const want = `[mcp_servers.handrail]
url = "https://gw.example/mcp?structured=0"
http_headers = { "Authorization" = "Bearer hrt_1" }
`
	if got := codex.Entry(codex.HTTP("https://gw.example", "hrt_1")); got != want {
		t.Errorf("got\n%s", got)
	}
	const program = `[mcp_servers.handrail]
command = "handrail"
args = ["mcp"]
env = { "A" = "1", "B" = "2" }
`
	if got := codex.Entry(codex.Stdio("handrail", []string{"mcp"}, map[string]string{"B": "2", "A": "1"})); got != program {
		t.Errorf("got\n%s", got)
	}
}
