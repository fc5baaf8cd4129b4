package datadir

import (
	"path/filepath"
	"testing"
)

func TestDefaultDataDir(t *testing.T) {
	abs := filepath.Join(t.TempDir(), "state")
	for name, c := range map[string]struct {
		goos string
		env  map[string]string
		want string
	}{
		"XDG":                {"linux", map[string]string{"XDG_STATE_HOME": abs, "HOME": "h"}, filepath.Join(abs, "handrail")},
		"relative XDG is no": {"linux", map[string]string{"XDG_STATE_HOME": "state", "HOME": "h"}, filepath.Join("h", ".local", "state", "handrail")},
		"mac":                {"darwin", map[string]string{"HOME": "h"}, filepath.Join("h", "Library", "Application Support", "handrail")},
		"windows":            {"windows", map[string]string{"LOCALAPPDATA": "l"}, filepath.Join("l", "handrail")},
	} {
		got, err := defaultDataDir(c.goos, func(k string) string { return c.env[k] })
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, c.want)
		}
	}
	if _, err := defaultDataDir("linux", func(string) string { return "" }); err == nil {
		t.Error("no home directory gave a data directory")
	}
}
