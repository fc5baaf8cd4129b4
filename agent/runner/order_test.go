package runner

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The order of the phases is held by their values, so each value has one maker, and a handler
// is run from one place, which takes a started.
func TestEachPhaseHasOneMaker(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	makers := map[string][]string{}
	note := func(what, function string) {
		if !slices.Contains(makers[what], function) {
			makers[what] = append(makers[what], function)
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if id, ok := n.Type.(*ast.Ident); ok {
						note(id.Name, f.Name.Name)
					}
				case *ast.CallExpr:
					if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "new" {
						if made, ok := n.Args[0].(*ast.Ident); ok {
							note(made.Name, f.Name.Name)
						}
					}
					if sel, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Started", "run", "catching"}, sel.Sel.Name) {
						note("call of "+sel.Sel.Name, f.Name.Name)
					}
				}
				return true
			})
		}
	}
	for what, want := range map[string]string{
		"admitted": "admit", "placed": "place", "started": "start", "output": "run", "call of Started": "start", "call of run": "serve", "call of catching": "run",
	} {
		if got := makers[what]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: in %q, want it in %s alone", what, got, want)
		}
	}
}
