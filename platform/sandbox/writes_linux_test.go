package sandbox_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// told collects what a program was kept from writing.
type told struct {
	mu    sync.Mutex
	paths []string
}

func (w *told) wrote(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paths = append(w.paths, path)
}

func (w *told) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.paths)
}

// The walls refuse every change outside a program's folders, and the node is told of it, by stock
// programs' ways of changing files. Nobody is told of reading, of changes that fail by themselves,
// and of terminals and devices; and so with the oldest Landlock that will do (S1-45).
func TestWritesOutsideAreTold(t *testing.T) {
	base := t.TempDir()
	inside, seen, hidden := filepath.Join(base, "in"), filepath.Join(base, "seen"), filepath.Join(base, "hidden")
	for _, dir := range []string{inside, seen, hidden} {
		if err := os.MkdirAll(filepath.Join(dir, "folder"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(hidden, filepath.Join(inside, "way")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(hidden, "made"), filepath.Join(inside, "leads")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command string
		told    []string // below base
	}{
		"creates":                {"echo x > $HIDDEN/new", []string{"hidden/new"}},
		"overwrites":             {"echo x > $HIDDEN/file", []string{"hidden/file"}},
		"appends":                {"echo x >> $SEEN/file", []string{"seen/file"}},
		"opens for both":         {"exec 3<> $SEEN/file", []string{"seen/file"}},
		"removes":                {"rm -f $SEEN/file", []string{"seen/file"}},
		"removes a folder":       {"rmdir $SEEN/folder", []string{"seen/folder"}},
		"moves away":             {"mv $SEEN/file $IN/taken", []string{"seen/file"}},
		"moves there":            {"mv -n $IN/file $HIDDEN/given", []string{"hidden/given"}},
		"makes a folder":         {"mkdir $HIDDEN/made", []string{"hidden/made"}},
		"makes a link":           {"ln -s x $HIDDEN/link", []string{"hidden/link"}},
		"makes a second name":    {"ln $SEEN/file $HIDDEN/name", []string{"hidden/name"}},
		"makes a pipe":           {"mkfifo $HIDDEN/pipe", []string{"hidden/pipe"}},
		"empties":                {"truncate -s 0 $SEEN/file", []string{"seen/file"}},
		"from where it is":       {"cd $SEEN && echo x > file", []string{"seen/file"}},
		"up and down":            {"echo x > $IN/folder/../../hidden/file", []string{"hidden/file"}},
		"through a link":         {"echo x > $IN/way/file", []string{"hidden/file"}},
		"through a dangling one": {"echo x > $IN/leads", []string{"hidden/made"}},
		"twice":                  {"echo x > $SEEN/file; echo x > $SEEN/file", []string{"seen/file", "seen/file"}},
		"by what it has open":    {"exec 3< $SEEN/file; echo x > /proc/self/fd/3", []string{"seen/file"}},
		"inside":                 {"cd $IN && echo x > a && mkdir -p b/c && mv a b/c/d && ln -s d b/c/e && rm -r b && truncate -s 1 f && rm f", nil},
		"its own":                {"f=$(mktemp) && echo x > $f && cat <<< here && rm $f", nil},
		"reads":                  {"cat $HIDDEN/file; ls $HIDDEN /root /etc", nil},
		"what is not there":      {"rm -f $HIDDEN/none; truncate -c -s 0 $HIDDEN/none; mv $HIDDEN/none $IN/x; echo x > $HIDDEN/none/new", nil},
		"what is there":          {"mkdir -p $SEEN/folder; mkdir /tmp /usr", nil},
		"devices":                {"echo x > /dev/null; echo x > /dev/tty; echo x > /dev/stderr; echo x > /dev/full; echo x > /proc/self/comm; echo x > /dev/shm/x", nil},
	} {
		for _, landlock := range []int{0, 4} {
			for _, dir := range []string{inside, seen} { // as they were
				if err := os.WriteFile(filepath.Join(dir, "file"), []byte("mine"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var w told
			child, err := heldTo(t, landlock).Start(t.Context(), sandbox.Program{
				Argv: []string{"bash", "-c", c.command}, Env: []string{"IN=" + inside, "SEEN=" + seen, "HIDDEN=" + hidden}, Read: []string{seen}, Write: []string{inside}, Wrote: w.wrote,
			})
			if err != nil {
				t.Fatal(err)
			}
			_ = child.Stdin().Close()
			_, _ = io.Copy(io.Discard, child.Stdout())
			if _, err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, path := range c.told {
				want = append(want, filepath.Join(base, path))
			}
			// Refused in one way, some programs try another: mv copies and removes.
			got := w.all()
			if len(got) < len(want) || !slices.Equal(slices.Compact(slices.Clone(got)), slices.Compact(slices.Clone(want))) {
				t.Errorf("%s (Landlock %d): told of %q, want %q; it said %s", name, landlock, got, want, child.Stderr())
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(seen, "file")); err != nil || string(text) != "mine" {
		t.Errorf("%q %v", text, err)
	}
	if left, err := os.ReadDir(hidden); err != nil || len(left) != 2 {
		t.Errorf("%v %v", left, err)
	}
}

// A program of class t0, which has no folder at all, is told of, too.
func TestWritesOfPurePrograms(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "out")
	var w told
	child, err := box(t).Start(t.Context(), sandbox.Program{Argv: []string{"bash", "-c", "echo x > " + outside}, Class: capabilities.ClassT0, Call: true, Wrote: w.wrote})
	if err != nil {
		t.Fatal(err)
	}
	_ = child.Stdin().Close()
	if code, err := child.Wait(); err != nil || code == 0 {
		t.Fatal(code, err)
	}
	if got := strings.Join(w.all(), " "); got != outside {
		t.Errorf("told of %q", got)
	}
}

// The node is told in which of its folders a program changed something: once of the program of one
// call, with each change of one that serves many; and not of its scratch folder, nor of reading
// (S1-43).
func TestChangesInsideAreTold(t *testing.T) {
	base := t.TempDir()
	dirs := []string{filepath.Join(base, "a"), filepath.Join(base, "b")}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range []bool{true, false} {
		var w told
		p := sandbox.Program{
			Argv: []string{"bash", "-c", "cd $IN && echo x > f && cat f && echo y >> f && mkdir d && rm -r d f; echo z > $TMPDIR/x; ls $OTHER"},
			Env:  []string{"IN=" + dirs[0], "OTHER=" + dirs[1]}, Write: dirs, Call: call, Changed: w.wrote,
		}
		if call {
			p.Keys = []string{capabilities.KeySpawn, "data.read.workspace", "data.write.workspace"}
		}
		child, err := box(t).Start(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		_ = child.Stdin().Close()
		_, _ = io.Copy(io.Discard, child.Stdout())
		if code, err := child.Wait(); err != nil || code != 0 {
			t.Fatal(code, err, child.Stderr())
		}
		got := w.all()
		if slices.ContainsFunc(got, func(folder string) bool { return folder != dirs[0] }) || call && len(got) != 1 || !call && len(got) != 5 {
			t.Errorf("of one call %v: told of %q", call, got)
		}
	}
}
