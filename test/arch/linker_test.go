package arch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The linker leaves out methods that nobody calls, unless something that is
// linked finds methods by a name or a number that it can not know (text/template
// does, and html/template): then it keeps every exported method of every type,
// and the binary grows by a third.
func TestLinkerDropsMethods(t *testing.T) {
	if testing.Short() {
		t.Skip("links the binary; run without -short")
	}
	all := readTree(t)
	for _, tc := range []struct {
		name string
		args []string
		want bool
	}{
		{"the binary", []string{"./cmd/handrail"}, false},
		{"a program with a template", []string{filepath.Join("test", "arch", "testdata", "template.go")}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"build", "-buildvcs=false", "-ldflags=-s -w -dumpdep", "-o", filepath.Join(t.TempDir(), "out")}, tc.args...)
			cmd := exec.CommandContext(t.Context(), "go", args...)
			cmd.Dir = all.root
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out[max(0, len(out)-2000):])
			}
			var users []string // "a -> b": a function of the one kind or the other
			for line := range bytes.Lines(out) {
				if bytes.Contains(line, []byte("<ReflectMethod>")) {
					users = append(users, string(bytes.TrimSpace(line)))
				}
			}
			slices.Sort(users)
			if got := len(users) > 0; got != tc.want {
				t.Errorf("methods are found by reflection: %v, want %v\n%.2000q", got, tc.want, users)
			}
		})
	}
}
