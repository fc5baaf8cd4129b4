package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// An owner's extra file counts wherever the folder lies: a path with brackets is
// no pattern.
func TestOwnerRulesInAnyFolder(t *testing.T) {
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node", "node[1]", "no*de", `no?de`} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Skip(err) // a name this system does not take
		}
		forbid := []byte(`forbid (principal, action == Action::"tool.browser.evaluate", resource);`)
		if err := os.WriteFile(filepath.Join(dir, "owner-mine.cedar"), forbid, 0o600); err != nil {
			t.Fatal(err)
		}
		a := &Agent{opts: Options{Dir: dir, Catalog: cat}}
		engine, err := a.loadOwner()
		if err != nil {
			t.Fatal(err)
		}
		ask := func(tool string) policy.Effect {
			return engine.Decide(policy.Request{
				Principal: "alice", Tool: "tool.browser." + capabilities.ToolID(tool), Lane: "l", Node: policy.Node{ID: "n1"},
				Args: []byte(`{}`), Given: "t2", Required: "t2",
			}).Effect
		}
		if ask("evaluate") != policy.Deny || ask("snapshot") != policy.Allow {
			t.Errorf("%s: evaluate %s, snapshot %s", name, ask("evaluate"), ask("snapshot"))
		}
	}
}
