package chrome

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// versionKept returns the version of the program at path: what is kept in a folder below cache, if
// that is of a file of the same path, size and time, and what ask says otherwise. An empty version,
// and one that cannot be kept, is asked for again.
func versionKept(cache, path string, ask func() string) string {
	about, err := os.Stat(path)
	if err != nil || cache == "" {
		return ask()
	}
	key := fmt.Sprintf("%s\n%d\n%d\n", path, about.Size(), about.ModTime().UnixNano())
	file := filepath.Join(cache, "handrail", "browser-version")
	if text, err := os.ReadFile(file); err == nil {
		if version, ok := strings.CutPrefix(string(text), key); ok && version != "" && version == versionPattern.FindString(version) {
			return version
		}
	}
	version := ask()
	if version != "" && os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		keep(file, append([]byte(key), version...))
	}
	return version
}

// keep writes a file whole or not at all; a failure costs the next question only.
func keep(file string, text []byte) {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, text) {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".browser-version-*")
	if err != nil {
		return
	}
	_, err = f.Write(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil || os.Rename(f.Name(), file) != nil {
		os.Remove(f.Name())
	}
}
