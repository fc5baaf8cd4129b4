//go:build unix

package folder

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe that nobody writes to is no file, and nobody waits for it.
func TestAPipeIsNoFile(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR} {
		if _, _, err := Open(root, "pipe", flag); !errors.Is(err, ErrNoFile) {
			t.Errorf("flag %d: %v", flag, err)
		}
	}
}
