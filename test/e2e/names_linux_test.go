package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// names is an MCP server whose tools' names meet, twice, and one that is long; each says the name
// by which it was called.
const names = `while read -r line; do
[[ $line =~ \"id\":([0-9]+) ]] || continue
id=${BASH_REMATCH[1]}
case $line in
*'"method":"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"names","version":"1"}}' ;;
*'"method":"tools/list"'*) r='{"tools":[{"name":"getPet","inputSchema":{"type":"object"}},{"name":"get_pet","inputSchema":{"type":"object"}},{"name":"twice","inputSchema":{"type":"object"}},{"name":"twice","inputSchema":{"type":"object"}},{"name":"listPets","inputSchema":{"type":"object"}},{"name":"aToolWhoseNameIsMuchTooLongForTheClientsOfThisWorld","inputSchema":{"type":"object"}}]}' ;;
*'"method":"tools/call"'*) [[ $line =~ \"name\":\"([A-Za-z_]+)\" ]]; r="{\"content\":[{\"type\":\"text\",\"text\":\"called ${BASH_REMATCH[1]}\"}]}" ;;
*) r='{}' ;;
esac
printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
`

// Tools of one server whose names meet are refused with both names, and the rest is imported: the
// server hears its own names, and a long wire name is cut (issue 33, duplicate IDs). A name of a
// provider that there is, or of a built-in family, is refused by its code.
func TestToolsWhoseNamesMeet(t *testing.T) {
	h, n, admin := hosting(t)
	lib := filepath.Join(privateDir(t), "lib")
	must(t, os.Mkdir(lib, 0o755))
	must(t, os.WriteFile(filepath.Join(lib, "names.sh"), []byte(names), 0o644))
	record := api.AddProvider{Name: "pets", Kind: "mcp", Host: n.ID, Command: []string{"bash", filepath.Join(lib, "names.sh")}, Read: []string{lib}}
	body, err := json.Marshal(record)
	must(t, err)
	var added api.Provider
	admin.ok(http.MethodPost, "/v1/providers", string(body), &added)
	refused := map[string]string{}
	for _, r := range added.Refused {
		refused[r.Upstream] = r.Reason
	}
	if len(added.Tools) != 2 || !strings.Contains(refused["getPet"], "get_pet") || !strings.Contains(refused["get_pet"], "getPet") || refused["twice"] == "" {
		t.Fatalf("%+v refused %v", added.Tools, refused)
	}
	approved(t, admin, added, "allow")
	n.AwaitReady("tyrum.pets.list-pets")
	for _, tool := range added.Tools {
		if wire := tool.Tool.WireName(); len(wire) > 40 {
			t.Errorf("%s has %d characters", wire, len(wire))
		}
		r := h.Call(ctx(), tool.Tool, `{}`, "")
		if want(t, r, capabilities.StatusOK, ""); !strings.Contains(string(r.Output), "called "+tool.Upstream) {
			t.Errorf("%s: %s", tool.Tool, r.Output)
		}
	}
	want(t, h.Call(ctx(), "tool.pets.get-pet", `{}`, ""), capabilities.StatusError, capabilities.CodeUnknownTool)
	admin.fails(http.MethodPost, "/v1/providers", string(body), capabilities.CodeConflict)
	record.Name = "browser"
	body, err = json.Marshal(record)
	must(t, err)
	admin.fails(http.MethodPost, "/v1/providers", string(body), capabilities.CodeInvalidRequest)
}
