package arch

import (
	"go/ast"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A reader learns the system from folder names, one doc.go at a time (STYLE).
func TestEveryPackageTellsItsRoom(t *testing.T) {
	all := readTree(t)
	for _, dir := range all.packages() {
		told := false
		for _, s := range all.code {
			if s.dir() != dir || s.isTest() || s.syntax.Doc == nil {
				continue
			}
			if path.Base(s.file) != "doc.go" {
				t.Errorf("%s has a package comment; it belongs into doc.go", s.file)
				continue
			}
			told = true
			text := s.syntax.Doc.Text()
			if !strings.Contains(text, "import") {
				t.Errorf("%s does not say what the package must never import", s.file)
			}
		}
		if !told {
			t.Errorf("%s has no doc.go with a package comment", dir)
		}
	}
}

// Wiring is explicit in cmd: a package that acts by being imported hides it. Two packages whose
// processes are the program started again take over before what they do not need (decision 304).
func TestNothingActsByBeingImported(t *testing.T) {
	all := readTree(t)
	for _, s := range all.code {
		if s.file == "platform/procguard/procguard.go" || s.file == "platform/sandbox/runner.go" {
			continue
		}
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && !s.isTest() {
				t.Errorf("%s has an init function; construct it in cmd and hand it in", all.fset.Position(f.Pos()))
			}
		}
	}
}

// A package is a noun of the domain.
func TestPackageNamesSayWhatIsIn(t *testing.T) {
	all := readTree(t)
	for _, dir := range all.packages() {
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib", "pkg", "internal"}, path.Base(dir)) {
			t.Errorf("%s: the name does not say what is in it", dir)
		}
	}
}

func TestFilesStayReadable(t *testing.T) {
	const most = 650
	all := readTree(t)
	for _, s := range all.code {
		if lines := all.fset.File(s.syntax.Pos()).LineCount(); lines > most && !s.isTest() {
			t.Errorf("%s has %d lines: split it along a seam (about 600 at most)", s.file, lines)
		}
	}
}

// The files of one machine are not those of another. The pattern is written so that this file does
// not match itself. Tests may make up a person's folder.
var (
	machinePaths = regexp.MustCompile(`(^|[^A-Za-z0-9_.}])/(wor[k]|roo[t]|User[s]/[a-z]+|hom[e]/[a-z]+)/[A-Za-z0-9_.]`)
	madeUp       = regexp.MustCompile(`/(Users|home)/`)
)

func TestNoFileNamesAMachine(t *testing.T) {
	all := readTree(t)
	for _, name := range all.files {
		data := all.read(t, name)
		if !isText(data) || name == "go.sum" {
			continue
		}
		for i, line := range strings.Split(string(data), "\n") {
			m := machinePaths.FindString(line)
			if m != "" && !(strings.HasSuffix(name, "_test.go") && madeUp.MatchString(m)) {
				t.Errorf("%s:%d names the machine path %q", name, i+1, m)
			}
		}
	}
	for text, want := range map[string]bool{
		"cd /" + "work/main":              true,
		"\"/ho" + "me/anna/x\"":           true,
		"https://example.com/work/of/art": false,
		"/workers/x":                      false,
		"$HOME/.local":                    false,
	} {
		if got := machinePaths.MatchString(text); got != want {
			t.Errorf("%q matches: %v, want %v", text, got, want)
		}
	}
}

// Every package compiles on every system, and the program links; what a system lacks is
// an answer at run time, not a missing file.
func TestCrossCompile(t *testing.T) {
	if os.Getenv("HANDRAIL_CROSS") == "" {
		t.Skip("compiles six systems: run make cross")
	}
	all := readTree(t)
	for _, target := range targets {
		t.Run(target.goos+"-"+target.goarch, func(t *testing.T) {
			for _, args := range [][]string{
				{"list", "-buildvcs=false", "-export", "-f", "{{if not .Export}}{{.ImportPath}}{{end}}", "./..."}, // compiles, and links nothing
				// Linked as a release is: without tables for a debugger, in half the time.
				{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", os.DevNull, "./cmd/handrail"},
			} {
				cmd := exec.CommandContext(t.Context(), "go", args...)
				cmd.Dir = all.root
				cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+target.goos, "GOARCH="+target.goarch)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			}
		})
	}
}
