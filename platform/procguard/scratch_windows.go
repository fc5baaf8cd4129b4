package procguard

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/handrail-dev/handrail/platform"
)

// lockScratch holds a file inside the folder open: Windows refuses to delete
// it, and so the folder, while anyone does.
func lockScratch(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// lockFile holds a file open, which Windows then refuses to delete.
func lockFile(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errLocked
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// running: a process that cannot be opened is gone.
func running(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	p.Release()
	return true
}

func owned(os.FileInfo, *platform.User) bool { return true }

func giveTo(string, *platform.User) error { return nil }

func ours(os.FileInfo) bool { return true }

// closedTo returns "": children have no account of their own here.
func closedTo(string, *platform.User) string { return "" }
