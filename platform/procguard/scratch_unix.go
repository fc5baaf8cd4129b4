//go:build unix

package procguard

import (
	"os"
	"syscall"

	"github.com/handrail-dev/handrail/platform"
)

// lockScratch locks the folder itself; the lock belongs to the open file, which
// the guard inherits.
func lockScratch(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func giveTo(dir string, user *platform.User) error {
	if user == nil {
		return nil
	}
	return os.Chown(dir, int(user.UID), int(user.GID))
}

// ours reports whether the folder was made by this account: root gives its
// folders away, so root judges by the lock alone.
func ours(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (os.Geteuid() == 0 || int(st.Uid) == os.Geteuid())
}
