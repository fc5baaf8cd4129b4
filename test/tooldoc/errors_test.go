package tooldoc

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
)

const errorsFile = "../../docs/errors.md"

// groups are the blocks of the list in capabilities/code.go, in order, by the code
// each begins with.
var groups = map[capabilities.Code]string{
	capabilities.CodeInvalidRequest:      "The request",
	capabilities.CodeNodeNotFound:        "Choosing a node",
	capabilities.CodeDeniedByPolicy:      "Permission",
	capabilities.CodeLedgerUnavailable:   "Carrying it out",
	capabilities.CodeDeniedByNode:        "The device's last word",
	capabilities.CodeExecutionFailed:     "Tools of the browser, and of any kind",
	capabilities.CodeDesktopUnavailable:  "Tools of the desktop",
	capabilities.CodeSensorMissing:       "Camera and microphone",
	capabilities.CodeSecretUnavailable:   "Secrets",
	capabilities.CodePasteInvalid:        "Pairing",
	capabilities.CodeLocationUnavailable: "Position",
	capabilities.CodeArtifactUnavailable: "Files",
	capabilities.CodePushUnavailable:     "Notices",
	capabilities.CodeBackupLocked:        "Backups and updates",
	capabilities.CodeToolRestricted:      "Drift",
	capabilities.CodeLedgerCorrupt:       "The rest",
}

// places are what people call the rooms that return a code, by the longest prefix.
var places = []struct{ prefix, words string }{
	{"agent", "the device"},
	{"capabilities/browser", "the device: browser tools"},
	{"capabilities/egress", "the device"},
	{"capabilities/desktop", "the device: desktop tools"},
	{"capabilities/sensor", "the device: camera and microphone"},
	{"capabilities/wire", "the gateway"},
	{"capabilities", "the gateway"},
	{"gateway", "the gateway"},
	{"platform", "the device"},
	{"pairing", "pairing"},
	{"satellite", "a satellite"},
	{"cmd", "the command line"},
}

func placeOf(dir string) string {
	best := -1
	for i, p := range places {
		if (dir == p.prefix || strings.HasPrefix(dir, p.prefix+"/")) && (best < 0 || len(p.prefix) > len(places[best].prefix)) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	return places[best].words
}

// declared returns the constants of the list in their order, name and code, and the codes
// that a block begins with: those after an empty line.
func declared(t *testing.T) (names []string, codes map[string]capabilities.Code, blocks []capabilities.Code) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "../../capabilities/code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes = map[string]capabilities.Code{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		before := 0
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, v.Names[0].Name)
			codes[v.Names[0].Name] = capabilities.Code(text)
			if set.Position(v.Pos()).Line != before+1 {
				blocks = append(blocks, capabilities.Code(text))
			}
			before = set.Position(v.End()).Line
		}
	}
	return names, codes, blocks
}

// givers finds, for each constant, the places of the product that mention it.
func givers(t *testing.T) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || rel == "test" || rel == "suite" || rel == "bin" || rel == "dist") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") || rel == "capabilities/code.go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if ok && strings.HasPrefix(id.Name, "Code") && rel != "cmd/handrail/terminal/exit.go" {
				if found[id.Name] == nil {
					found[id.Name] = map[string]bool{}
				}
				place := placeOf(filepath.ToSlash(filepath.Dir(rel)))
				if place == "" {
					t.Errorf("%s has %s, and places has no words for its folder", rel, id.Name)
				}
				found[id.Name][place] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// exits reads the table of the command line's exit codes: by constants of the list, and the
// one of what stands in no row.
func exits(t *testing.T) (of map[string]string, otherwise string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../cmd/handrail/terminal/exit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	numbers, of := map[string]string{}, map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		switch value := v.Values[0].(type) {
		case *ast.BasicLit:
			numbers[v.Names[0].Name] = value.Value
		case *ast.CompositeLit:
			if v.Names[0].Name != "ExitCodes" {
				return true
			}
			for _, e := range value.Elts {
				row := e.(*ast.KeyValueExpr)
				of[row.Key.(*ast.SelectorExpr).Sel.Name] = numbers[row.Value.(*ast.Ident).Name]
			}
		}
		return true
	})
	if otherwise = numbers["ExitFailed"]; otherwise == "" || len(of) == 0 {
		t.Fatal("cmd/handrail/terminal/exit.go has no table of exit codes")
	}
	return of, otherwise
}

func errorsPage(t *testing.T) []byte {
	t.Helper()
	names, codes, _ := declared(t)
	given := givers(t)
	exit, failed := exits(t)
	exit["CodeAmbiguousNode"] = "by its reason"
	var b bytes.Buffer
	b.WriteString(`# Error codes

Every refusal and failure has one of these codes, on every surface: ` + "`error.code`" + ` in the API and on the command line with ` + "`--json`" + `, before the message without it, ` + "`code`" + ` in a tool's
result and in the ledger. The list only grows. A message may say more than the cause given here, and a hint may be more exact than the fix. "Again" says that the same
call may succeed later without a change. HTTP is the API's status; a call that reached the tool pipeline is answered with 200 and the code in its result. "Exit" is what a
command ends with ([cli.md](cli.md#exit-codes)).

The command line has one more, ` + "`failed`" + `: an error of a command itself that none of these fits, such as no gateway at that address. Its message is the whole story.

` + "`ambiguous_node_selection`" + ` says in ` + "`details.reason`" + ` why no node was selected: ` + "`several`" + ` (several could, and none was named), ` + "`no_node`" + ` (none is paired that offers it), ` + "`not_ready`" + ` (this
may pass by itself, and the refusal is retryable), ` + "`denied_by_policy`" + ` (policy or the admin's allowlist; an admin is told the rule), or ` + "`mixed`" + ` (each candidate has a
reason of its own). ` + "`details.detail`" + ` and ` + "`details.candidates`" + ` say the rest.

This page is made from the code: ` + "`go test ./test/tooldoc -run Errors -update`" + `.
`)
	for _, name := range names {
		code := codes[name]
		if title, ok := groups[code]; ok {
			fmt.Fprintf(&b, "\n## %s\n\n| code | cause | fix | from | again | HTTP | exit |\n|---|---|---|---|---|---|---|\n", title)
		}
		info, again := code.Info(), "no"
		if info.Retryable {
			again = "yes"
		}
		from := slices.Sorted(maps.Keys(given[name]))
		if len(from) == 0 {
			t.Errorf("nothing gives %s", code)
		}
		// A place that is part of another that is listed adds nothing.
		from = slices.DeleteFunc(from, func(p string) bool {
			return slices.ContainsFunc(from, func(o string) bool { return o != p && strings.HasPrefix(o, p+":") })
		})
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %d | %s |\n", code, info.Message, command.Hint(info.Hint, capabilities.Action{Key: info.Action}), strings.Join(from, "; "), again, info.HTTP, cmp.Or(exit[name], failed))
	}
	return b.Bytes()
}

// docs/errors.md names every code, with what the code itself says.
func TestErrors(t *testing.T) {
	page := errorsPage(t)
	for _, code := range capabilities.Codes() {
		if !bytes.Contains(page, []byte("| `"+string(code)+"` |")) {
			t.Errorf("%s is not on the page", code)
		}
	}
	_, _, blocks := declared(t)
	for _, code := range blocks {
		if groups[code] == "" {
			t.Errorf("the block that begins with %s has no heading", code)
		}
	}
	for code, title := range groups {
		if !slices.Contains(blocks, code) {
			t.Errorf("%q begins with %s, which begins no block", title, code)
		}
	}
	if t.Failed() {
		return
	}
	if *update {
		if err := os.WriteFile(errorsFile, page, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(errorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, page) {
		t.Error("docs/errors.md is not what the code says; run: go test ./test/tooldoc -run Errors -update")
	}
}
