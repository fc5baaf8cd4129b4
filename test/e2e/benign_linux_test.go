package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// The suites that ship in the program are work that is meant: what the built program does in them
// leaves nothing in the chain of drift (S1-43). The suites' own tests hold every behaviour of both
// to that, as those of whole sites do; here some of each family run as an owner runs them.
func TestASuiteOfTheBuiltProgramDoesNotDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	desk.Need(t, "chromium")
	dir := privateDir(t)
	program := filepath.Join(dir, "handrail")
	site.Program(t, program)
	const work = `set -e
handrail suite browser --shard 1/20 >browser.txt
export HANDRAIL_TOKEN=$(cat "$HANDRAIL_DATA/gateway/admin.token")
handrail calls --json >calls.json
exec handrail drift list --json`
	cmd := exec.CommandContext(t.Context(), program, "ci", "--browser-sandbox", "auto", "--", "sh", "-c", work)
	cmd.Dir = dir
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		browser, _ := os.ReadFile(filepath.Join(dir, "browser.txt"))
		t.Fatalf("%v\n%s\n%s%s", err, said.String(), browser, out)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls.json"))
	must(t, err)
	if !strings.Contains(string(calls), "tool.browser.") {
		t.Errorf("the calls of the suite are not recorded: %.2000s", calls)
	}
	var list api.DriftList
	must(t, json.Unmarshal(out, &list))
	if len(list.Events)+len(list.Quarantined)+len(list.Restricted)+len(list.Raised) != 0 {
		t.Errorf("%s", out)
	}
}
