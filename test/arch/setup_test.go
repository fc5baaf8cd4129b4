package arch

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every program that a test asks test/desk for by name is one that '.ci/setup test'
// looks for and installs: a machine that happens to have it hides that a new one does
// not.
func TestSetupInstallsWhatTestsNeed(t *testing.T) {
	all := readTree(t)
	setup, err := os.ReadFile(filepath.Join(all.root, ".ci", "setup"))
	if err != nil {
		t.Fatal(err)
	}
	// The browser has its own way in .ci/setup; the rest is on every system it knows.
	known := []string{"chromium", "sh", "env", "head", "perl"} // perl-base is essential on Debian
	for _, field := range strings.Fields(string(setup)) {
		if program, _, ok := strings.Cut(field, "="); ok {
			known = append(known, path.Base(program))
		}
	}
	asked := 0
	for _, file := range all.code {
		if !slices.Contains(file.imports, module+"/test/desk") && file.dir() != "test/desk" {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, program := range programs(call) {
				asked++
				if !slices.Contains(known, path.Base(program)) {
					t.Errorf("%s needs %s, which .ci/setup does not install", all.fset.Position(call.Pos()), program)
				}
			}
			return true
		})
	}
	if asked < 20 {
		t.Errorf("only %d programs were found: this test looks for the wrong calls", asked)
	}
}

// programs returns what a call of Need, Start, Run, Try or Command asks for by a literal;
// t.Run and its like, which take a function, are none of them.
func programs(call *ast.CallExpr) (names []string) {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
		if id, ok := f.X.(*ast.Ident); ok && id.Name == "exec" {
			return nil
		}
	}
	args := call.Args
	switch name {
	case "Need":
		args = args[min(1, len(args)):]
	case "Start", "Run", "Try", "Command":
		for _, a := range args {
			if _, ok := a.(*ast.FuncLit); ok {
				return nil
			}
		}
		args = args[:min(1, len(args))]
	default:
		return nil
	}
	for _, a := range args {
		if lit, ok := a.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				names = append(names, s)
			}
		}
	}
	return names
}

// Every module of Python's that a fixture imports and Python does not bring is one that
// '.ci/setup test' tries to import, and installs.
func TestSetupInstallsWhatFixturesImport(t *testing.T) {
	all := readTree(t)
	setup, err := os.ReadFile(filepath.Join(all.root, ".ci", "setup"))
	if err != nil {
		t.Fatal(err)
	}
	fixtures, err := filepath.Glob(filepath.Join(all.root, "test", "*", "testdata", "*.py"))
	if err != nil || len(fixtures) < 5 {
		t.Fatalf("%q, %v", fixtures, err)
	}
	brought := []string{"asyncio", "json", "os", "sys", "threading", "time", "urllib", "events"} // the last is a fixture's own
	imported := regexp.MustCompile(`(?m)^(?:import|from) (\w+)`)
	for _, file := range fixtures {
		program, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range imported.FindAllStringSubmatch(string(program), -1) {
			if !slices.Contains(brought, m[1]) && !strings.Contains(string(setup), "import "+m[1]) && !strings.Contains(string(setup), "from "+m[1]+" ") {
				t.Errorf("%s imports %s, which .ci/setup does not look for", filepath.Base(file), m[1])
			}
		}
	}
}

// A release is compiled as .ci/build compiles, whose size and speed are those measured.
func TestReleaseIsBuiltAlike(t *testing.T) {
	all := readTree(t)
	flags := regexp.MustCompile(`-gcflags|-tags|-trimpath|-(?:s|w)\b|-funcalign|-X main\.version|CGO_ENABLED=\d`)
	lists := map[string][]string{}
	for _, file := range []string{".ci/build", "goreleaser.yaml"} {
		text, err := os.ReadFile(filepath.Join(all.root, file))
		if err != nil {
			t.Fatal(err)
		}
		list := flags.FindAllString(string(text), -1)
		slices.Sort(list)
		lists[file] = list
	}
	if one, other := lists[".ci/build"], lists["goreleaser.yaml"]; len(one) < 4 || !slices.Equal(one, other) {
		t.Errorf(".ci/build has %q\ngoreleaser.yaml has %q", one, other)
	}
}
