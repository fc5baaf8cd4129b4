package site

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gofrs/flock"
)

// Program writes the program, as make build makes it, to a file of the test's own. It is
// linked once for the tests of all packages.
func Program(t testing.TB, to string) {
	t.Helper()
	made, err := program()
	if err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(to, made, 0o700))
	must(t, os.Chmod(to, 0o755)) // a browser's account runs it, too
}

// program returns the program's bytes.
var program = sync.OnceValues(func() ([]byte, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "handrail", fmt.Sprintf("program-%08x", crc32.ChecksumIEEE([]byte(root))))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if err := lock.Lock(); err != nil {
		return nil, err
	}
	defer func() { _ = lock.Unlock() }()
	file := filepath.Join(dir, "handrail")
	if _, err := run(root, ".ci/build", file); err != nil { // links if something changed
		return nil, err
	}
	if err := lookAtSources(root); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// lookAtSources looks at each source of the program. The go command keeps a test's result
// for as long as what the test itself read is unchanged, and does not see what a compiler
// read for it.
func lookAtSources(root string) error {
	dirs, err := run(root, "go", "list", "-deps", "-f", `{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}`, "./cmd/handrail")
	if err != nil {
		return err
	}
	for dir := range strings.Lines(dirs) {
		dir = strings.TrimSpace(dir)
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, f := range files {
			if _, err := os.Stat(filepath.Join(dir, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// run returns what a command prints. It is not bound to the first test that wants the program.
func run(dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w\n%s", name, args, err, said.String())
	}
	return string(out), nil
}
