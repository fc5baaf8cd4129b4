package procguard

import (
	"os"
	"path/filepath"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// sweepAge keeps the sweeper away from folders that are only just being made
// and not locked yet.
const sweepAge = 10 * time.Second

// newScratch makes a private folder, locked for as long as the returned file or
// a copy of it is open, so that sweepScratch can tell the living from the dead.
func newScratch(base, prefix string, user *platform.User) (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp(base, prefix); err != nil {
		return "", nil, err
	}
	if lock, err = lockScratch(dir); err == nil {
		err = giveTo(dir, user)
	}
	if err != nil {
		if lock != nil {
			lock.Close()
		}
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, lock, nil
}

// sweepScratch deletes folders that nobody holds any more (after a power cut,
// or when guard and parent were killed together) and says how many.
func sweepScratch(base, prefix string) (swept int) {
	dirs, err := filepath.Glob(filepath.Join(base, prefix+"*"))
	if err != nil {
		return 0
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < sweepAge || !ours(info) {
			continue
		}
		if lock, err := lockScratch(dir); err == nil {
			lock.Close()
			if os.RemoveAll(dir) == nil {
				swept++
			}
		}
	}
	return swept
}
