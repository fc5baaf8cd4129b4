package arch

import (
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// harnesses are the folders of what takes one turn; guarantees those of what is code, because its
// answer is promised.
var (
	harnesses  = []string{"agent/worker/model", "agent/worker/template"}
	guarantees = []string{"agent/worker/gate", "capabilities/policy", "gateway/macro", "gateway/route", "gateway/registry", "agent/guard"}
)

// The six invariants (S3-33): a worker is no tool; a harness takes a turn and has no part of the
// pipeline; one dispatcher reaches nodes and satellites; a surface does not make a domain a tool's;
// satellites are providers; a worker is an engine that is handed its harness. So a tool is called
// by the engine, for a harness or for itself, and by nobody else in a worker (S3-06). Models have
// a say where a decision is wanted, and none where a guarantee is (S3-35).
func TestInvariantsOfThePlane(t *testing.T) {
	all := readTree(t)
	seen := map[string]bool{}
	for _, s := range all.code {
		if s.isTest() {
			continue
		}
		dir := s.dir()
		seen[dir] = true
		for _, p := range s.imports {
			p, ours := strings.CutPrefix(p, module+"/")
			harness := slices.Contains(harnesses, p) || strings.HasPrefix(p, "agent/worker/model/")
			switch {
			case !ours:
			case dir == "agent/worker" && harness:
				t.Errorf("%s imports %s: an engine is handed its harness", s.file, p)
			case slices.Contains(guarantees, dir) && harness:
				t.Errorf("%s imports %s: nobody is talked out of a guarantee", s.file, p)
			case slices.Contains(harnesses, dir) && (p == "agent/worker/gate" || p == "agent/worker/memory" || strings.HasPrefix(p, "gateway/")):
				t.Errorf("%s imports %s: a harness takes a turn, and has no part of the pipeline", s.file, p)
			}
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if slices.Contains(harnesses, dir) && sel.Sel.Name == "Gateway" {
				t.Errorf("%s names a gateway: the engine makes the calls that a harness wants", s.file)
			}
			of, _ := sel.X.(*ast.SelectorExpr)
			// gateway/satellites.go stands between dispatch and the two of them.
			if of != nil && of.Sel.Name == "Nodes" && slices.Contains([]string{"Dispatch", "Converse", "Conduct", "Deliver"}, sel.Sel.Name) &&
				dir != "gateway/dispatch" && s.file != "gateway/satellites.go" {
				t.Errorf("%s sends a call to a node: dispatch alone does", s.file)
			}
			return true
		})
	}
	for _, dir := range slices.Concat(harnesses, guarantees, []string{"agent/worker", "gateway/dispatch"}) {
		if !seen[dir] {
			t.Errorf("there is no %s: the test is broken", dir)
		}
	}
	if !slices.Contains(tools.Kinds(), tools.KindSatellite) {
		t.Error("a satellite is a provider")
	}
	domains := func(folder string) (names []string) {
		list, err := os.ReadDir(filepath.Join(all.root, "capabilities", "catalog", folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range list {
			names = append(names, entry.Name())
		}
		return names
	}
	plumbing := domains("plumbing")
	for _, name := range domains("tool") {
		if slices.Contains(plumbing, name) || name == "worker" || name == "harness" {
			t.Errorf("%s is a domain of tools", name)
		}
	}
}
