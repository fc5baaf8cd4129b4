package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// No workspace reaches what gateway and node keep, whichever way it is named.
func TestAWorkspaceIsApartFromTheData(t *testing.T) {
	base, away := t.TempDir(), t.TempDir()
	data := datadir.Dir(filepath.Join(base, "state", "handrail"))
	for _, dir := range []string{data.Node(), data.Gateway(), filepath.Join(base, "state2"), filepath.Join(away, "node")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(base, "state"), filepath.Join(base, "link")); err != nil {
		t.Skip(err)
	}
	other := datadir.Dir(filepath.Join(base, "other"))
	if err := os.Mkdir(string(other), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(away, "node"), other.Node()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		data datadir.Dir
		dir  string
		ok   bool
	}{
		{data, "", true}, {data, filepath.Join(base, "state2"), true}, {data, away, true}, {other, filepath.Join(base, "state"), true},
		{data, base, false}, {data, string(data), false}, {data, data.Node("journal"), false}, {data, filepath.Join(base, "link"), false},
		{data, filepath.Join(base, "link", "handrail", "gateway"), false}, {other, away, false}, {other, filepath.Join(away, "node", "x"), false},
	} {
		err := apart(c.data, c.dir)
		if (err == nil) != c.ok {
			t.Errorf("the workspace %s beside %s: %v", c.dir, c.data, err)
		}
		if e := capabilities.AsError(err); err != nil && (e.Code != capabilities.CodeInvalidRequest || e.Hint == "" || terminal.ExitCode(err) != terminal.ExitUsage) {
			t.Errorf("%+v", e)
		}
	}
	t.Chdir(data.Node())
	if err := apart(data, "."); err == nil {
		t.Error("a workspace that is named from within")
	}
}
