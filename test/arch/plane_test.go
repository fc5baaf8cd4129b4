package arch

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// pipeline are the folders that every call goes through, of whichever kind its tool is.
var pipeline = []string{
	"gateway/dispatch", "gateway/route", "gateway/registry", "gateway/consent", "gateway/ledger", "gateway/front/mcp",
	"agent/guard", "agent/runner",
}

// kindsIn lists the layers and kinds of providers that a file names.
func kindsIn(file *ast.File) (all []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			x, _ := s.X.(*ast.Ident)
			switch name := s.Sel.Name; {
			case name == "Layer" && (x == nil || x.Name != "catalog"), x != nil && x.Name == "catalog" && strings.HasPrefix(name, "Layer"),
				x != nil && x.Name == "tools" && strings.HasPrefix(name, "Kind"):
				all = append(all, name)
			}
		}
		return true
	})
	return all
}

// No kind of tool is special on its way (S3-21, S3-27): whatever a call, a list or a question goes
// through asks neither for a tool's layer nor for the kind of its provider.
func TestNoKindIsSpecial(t *testing.T) {
	all := readTree(t)
	seen := map[string]bool{}
	for _, s := range all.code {
		if !slices.Contains(pipeline, s.dir()) || s.isTest() {
			continue
		}
		seen[s.dir()] = true
		for _, name := range kindsIn(s.syntax) {
			t.Errorf("%s asks for %s: what is special about a tool is data of its descriptor that says what to do", s.file, name)
		}
	}
	if len(seen) != len(pipeline) {
		t.Errorf("looked into %v of %v: the test is broken", seen, pipeline)
	}
}

// There is one selector (S4-12), and it needs no language model (S4-47) and plans nothing (S4-07):
// only the registry makes a selection, and nothing there reaches another process or the network.
func TestOneSelector(t *testing.T) {
	all := readTree(t)
	made := 0
	for _, s := range all.code {
		if s.isTest() || !strings.HasPrefix(s.dir(), "gateway") {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			c, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			switch of := c.Type.(type) {
			case *ast.Ident:
				if of.Name == "ToolSelection" && s.dir() == "gateway/registry" {
					made++
				}
			case *ast.SelectorExpr:
				if x, ok := of.X.(*ast.Ident); ok && x.Name == "registry" && of.Sel.Name == "ToolSelection" && len(c.Elts) > 0 {
					t.Errorf("%s makes a selection: ask the registry", s.file)
				}
			}
			return true
		})
		if s.dir() == "gateway/registry" {
			for _, p := range s.imports {
				if p == "net" || strings.HasPrefix(p, "net/") || p == "os/exec" || strings.Contains(p, ".") && !strings.HasPrefix(p, module+"/") {
					t.Errorf("%s imports %s: a selection needs nothing but the words and the registry", s.file, p)
				}
			}
		}
	}
	if made == 0 {
		t.Error("the registry makes no selection: the test is broken")
	}
}
