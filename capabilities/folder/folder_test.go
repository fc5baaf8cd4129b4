package folder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree is data/node, other, and links: in to data, loop to itself, new to what is not there yet.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "data", "node"), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "other"), 0o700))
	for link, to := range map[string]string{"in": "data", "loop": "loop", "other/new": "../data/node/not/yet"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	return dir
}

func TestReal(t *testing.T) {
	dir := tree(t)
	for path, want := range map[string]string{
		"data/node": "data/node", "in/node": "data/node", "in/node/gone/too": "data/node/gone/too", "other/new": "data/node/not/yet",
		"other/new/er": "data/node/not/yet/er", "loop": "loop", "gone": "gone", "in/../other": "other",
	} {
		if got := Real(dir + "/" + path); got != filepath.Join(dir, want) {
			t.Errorf("%s leads to %s, want %s", path, got, want)
		}
	}
}

func TestFoldersMeet(t *testing.T) {
	dir := tree(t)
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"data", "data", true}, {"data", "data/node", true}, {"data/node", "in", true}, {".", "data/node", true}, {"other/new", "data", true},
		{"other", "data", false}, {"data", "data2", false}, {"data/node", "data/node2", false},
	} {
		a, b := filepath.Join(dir, c.a), filepath.Join(dir, c.b)
		if Meet(a, b) != c.want || Meet(b, a) != c.want {
			t.Errorf("%s and %s meet: %v", c.a, c.b, !c.want)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := tree(t)
	must(t, os.WriteFile(filepath.Join(dir, "other", "a"), []byte("x"), 0o600))
	root, err := os.OpenRoot(filepath.Join(dir, "other"))
	must(t, err)
	defer root.Close()
	for name, is := range map[string]bool{"a": true, ".": false} {
		f, info, err := Open(root, name, os.O_RDONLY)
		must(t, err)
		must(t, f.Close())
		if info.Mode().IsRegular() != is {
			t.Errorf("%s: %v", name, info.Mode())
		}
	}
	if _, _, err := Open(root, "gone", os.O_RDONLY); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
