package arch

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/handrail-dev/handrail"

// targets are the systems a release is built for.
var targets = []struct{ goos, goarch string }{
	{"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
}

// source is one Go file that belongs to a build of some target. Files are parsed
// here rather than asked of `go list`, which sees one system's files only.
type source struct {
	file    string // relative to the root, with slashes
	syntax  *ast.File
	imports []string
}

func (s source) isTest() bool { return strings.HasSuffix(s.file, "_test.go") }
func (s source) dir() string  { return path.Dir(s.file) }

// tree is the whole module.
type tree struct {
	root  string
	fset  *token.FileSet
	files []string // every file of the project, relative, with slashes
	code  []source
}

func readTree(t *testing.T) tree {
	t.Helper()
	all, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	if len(all.code) == 0 {
		t.Fatal("no Go files found: the walk is broken")
	}
	return all
}

// wholeTree is read once for all tests, none of which changes it.
var wholeTree = sync.OnceValues(func() (tree, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return tree{}, err
	}
	all := tree{root: root, fset: token.NewFileSet()}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			switch {
			case name == ".", name == ".ci", name == ".github":
				return nil
			case strings.HasPrefix(d.Name(), "."), name == "bin", name == "dist":
				return fs.SkipDir
			}
			return nil
		}
		if name == ".git" { // of a work tree beside its repository
			return nil
		}
		all.files = append(all.files, name)
		if strings.HasSuffix(name, ".go") && !strings.Contains(name, "testdata/") && builtSomewhere(file) {
			return all.parse(file, name)
		}
		return nil
	})
	return all, err
})

func builtSomewhere(file string) bool {
	return slices.ContainsFunc(targets, func(target struct{ goos, goarch string }) bool {
		context := build.Default
		context.GOOS, context.GOARCH, context.CgoEnabled = target.goos, target.goarch, false
		ok, err := context.MatchFile(filepath.Dir(file), filepath.Base(file))
		return err == nil && ok
	})
}

func (all *tree) parse(file, name string) error {
	syntax, err := parser.ParseFile(all.fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s := source{file: name, syntax: syntax}
	for _, i := range syntax.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		s.imports = append(s.imports, p)
	}
	all.code = append(all.code, s)
	return nil
}

func (all tree) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(all.root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// isText keeps pictures and other binaries out of searches.
func isText(data []byte) bool { return !bytes.Contains(data[:min(len(data), 8000)], []byte{0}) }

// packages returns the folders that hold Go code that is not a test, sorted.
func (all tree) packages() []string {
	seen := map[string]bool{}
	for _, s := range all.code {
		if !s.isTest() {
			seen[s.dir()] = true
		}
	}
	var dirs []string
	for d := range seen {
		dirs = append(dirs, d)
	}
	slices.SortFunc(dirs, cmp.Compare[string])
	return dirs
}
