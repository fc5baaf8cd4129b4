package chrome

import (
	"os"
	"path/filepath"
	"testing"
)

// A browser that does not start any more, with its file as it was, is believed by those that want
// its version and not by those that look whether it starts.
func TestStartsAsksAgain(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	needed, program := filepath.Join(dir, "library"), filepath.Join(dir, "chrome")
	if err := os.WriteFile(needed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n[ -e '" + needed + "' ] && echo Chromium 156.0.1.2\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	// A script would not be found as a browser, but it is asked like one.
	says := func(o Options) string { return New(o).host.Version(t.Context(), program) }
	if got := says(Options{}); got != "156.0.1.2" {
		t.Fatalf("%q", got)
	}
	if err := os.Remove(needed); err != nil {
		t.Fatal(err)
	}
	if kept, starts := says(Options{}), says(Options{Starts: true}); kept != "156.0.1.2" || starts != "" {
		t.Errorf("kept %q, and it starts as %q", kept, starts)
	}
}
