//go:build unix

package procguard

import (
	"os"
	"path/filepath"
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

// lockFile holds an empty file beside what it stands for.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if err == syscall.EWOULDBLOCK {
			err = errLocked
		}
		return nil, err
	}
	return f, nil
}

// running reports whether there is such a process.
func running(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

// owned reports whether a file is the user's alone: what it links to elsewhere is
// not copied.
func owned(info os.FileInfo, user *platform.User) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (info.IsDir() || st.Nlink == 1) && (user == nil || st.Uid == user.UID)
}

func giveTo(dir string, user *platform.User) error {
	if user == nil {
		return nil
	}
	return os.Chown(dir, int(user.UID), int(user.GID))
}

// closedTo returns the folder on the way to base that a user cannot enter by its mode; "": none.
func closedTo(base string, user *platform.User) string {
	if user == nil {
		return ""
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return ""
	}
	for dir := base; ; dir = filepath.Dir(dir) {
		var st syscall.Stat_t
		if syscall.Stat(dir, &st) != nil {
			return ""
		}
		enter := uint32(0o001)
		switch {
		case st.Uid == user.UID:
			enter = 0o100
		case st.Gid == user.GID:
			enter = 0o010
		}
		if user.UID != 0 && uint32(st.Mode)&enter == 0 {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// ours reports whether the folder was made by this account: root gives its
// folders away, so root judges by the lock alone.
func ours(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (os.Geteuid() == 0 || int(st.Uid) == os.Geteuid())
}
