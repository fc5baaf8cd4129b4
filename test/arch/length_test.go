package arch

import (
	"go/ast"
	"go/build"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// atLength are the tests that make test leaves out, each by the folder that it is in.
func atLength(all tree) map[string][]string {
	found := map[string][]string{}
	for _, s := range all.code {
		for name := range testsOf(s) {
			if strings.HasSuffix(name, "AtLength") {
				found[s.dir()] = append(found[s.dir()], name)
			}
		}
	}
	return found
}

// testsOf are the names of a file's tests.
func testsOf(s source) map[string]bool {
	names := map[string]bool{}
	if !strings.HasSuffix(s.file, "_test.go") {
		return names
	}
	for _, d := range s.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			names[f.Name.Name] = true
		}
	}
	return names
}

// A test that make test leaves out has one beside it that proves the same rule by less.
func TestEachTestAtLengthHasAShorterOne(t *testing.T) {
	all := readTree(t)
	found := atLength(all)
	if len(found) < 2 {
		t.Fatal("no test at length was found: this looks for the wrong names")
	}
	for dir, names := range found {
		short := map[string]bool{}
		for _, s := range all.code {
			if s.dir() == dir {
				for name := range testsOf(s) {
					short[name] = true
				}
			}
		}
		for _, name := range names {
			if !short[strings.TrimSuffix(name, "AtLength")] {
				t.Errorf("%s: %s has no shorter test beside it, and make test would prove nothing of its rule", dir, name)
			}
		}
	}
}

// here reports whether a file is compiled for this system.
func here(t *testing.T, all tree, s source) bool {
	t.Helper()
	ok, err := build.Default.MatchFile(filepath.Join(all.root, filepath.FromSlash(s.dir())), path.Base(s.file))
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// The parts that .ci/run tests have every package with tests once, and those of length are the
// packages that have tests at length.
func TestPartsOfTheRunAreEveryTestOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it asks a shell's script")
	}
	if testing.Short() {
		t.Skip("it asks the go command about every package")
	}
	all := readTree(t)
	cmd := exec.Command(filepath.Join(all.root, ".ci", "packages"), "parts")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	in, length := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 2 || in[f[0]] != "" {
			t.Fatalf("%q", line)
		}
		if in[f[0]] = f[1]; len(f) > 2 {
			length[f[0]] = true
		}
	}
	for _, s := range all.code {
		if len(testsOf(s)) > 0 && !slices.Contains([]string{"rest", "race", "long"}, in[module+"/"+s.dir()]) && here(t, all, s) {
			t.Errorf("%s has tests, and is of no part", s.dir())
		}
	}
	lengthy := atLength(all)
	for dir := range lengthy {
		if pkg := module + "/" + dir; !length[pkg] {
			t.Errorf("%s is of %s, has tests at length, and is not in length", pkg, in[pkg])
		}
	}
	for pkg := range length {
		if lengthy[strings.TrimPrefix(pkg, module+"/")] == nil {
			t.Errorf("%s is in length and has no test at length", pkg)
		}
	}
}
