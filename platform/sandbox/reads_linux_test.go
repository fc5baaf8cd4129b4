package sandbox_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/platform/sandbox"
)

// Where somebody wants to know, the node is told once of each file that is there and that a program
// wanted to read in vain, with namespaces and without. Nobody is told of what it may read, of what
// lies above that, and of what is not there; and all of it is refused as ever.
func TestReadsOutsideAreTold(t *testing.T) {
	base := t.TempDir()
	seen, hidden := filepath.Join(base, "seen"), filepath.Join(base, "hidden")
	for _, dir := range []string{seen, hidden} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		command string
		told    []string // below base
	}{
		"reads":             {"cat $HIDDEN/file", []string{"hidden/file"}},
		"lists":             {"ls $HIDDEN", []string{"hidden"}},
		"looks":             {"[ -e $HIDDEN/file ] && echo mine", []string{"hidden/file"}},
		"goes there":        {"cd $SEEN && cat ../hidden/file", []string{"hidden/file"}},
		"twice":             {"cat $HIDDEN/file; cat $HIDDEN/file", []string{"hidden/file"}},
		"what it may":       {"cat $SEEN/file >/dev/null; ls $SEEN /usr / >/dev/null", nil},
		"what lies above":   {"realpath $SEEN/file >/dev/null; [ -d $SEEN/.. ]", nil},
		"what is not there": {"cat $HIDDEN/none /none", nil},
		"writes":            {"echo mine >> $HIDDEN/file", nil},
	} {
		for how, box := range map[string]*sandbox.Sandbox{"namespaces": box(t), "none": box(t).WithoutNamespaces()} {
			var w told
			child, err := box.Start(t.Context(), sandbox.Program{
				Argv: []string{"bash", "-c", c.command}, Env: []string{"SEEN=" + seen, "HIDDEN=" + hidden}, Read: []string{seen}, Missed: w.wrote,
			})
			if err != nil {
				t.Fatal(err)
			}
			_ = child.Stdin().Close()
			out, _ := io.ReadAll(child.Stdout())
			if _, err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, path := range c.told {
				want = append(want, filepath.Join(base, path))
			}
			if got := w.all(); !slices.Equal(got, want) || name == "reads" && len(out) > 0 {
				t.Errorf("%s (%s): told of %q, want %q; it said %s %s", name, how, got, want, out, child.Stderr())
			}
		}
	}
}
