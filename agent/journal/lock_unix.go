//go:build unix

package journal

import (
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process, whatever ends it.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
