package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that says already what it should is not written again, any other is.
func TestKeepFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.cedar")
	kept := func(text string) os.FileInfo {
		t.Helper()
		if err := keepFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Fatalf("it holds %q, %v; want %q", now, err, text)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := kept("permit")
	if !os.SameFile(first, kept("permit")) {
		t.Error("the same words were written again")
	}
	if os.SameFile(first, kept("forbid")) {
		t.Error("other words were written over the file instead of beside it") // a crash would leave half
	}
}
