package journal

import (
	"os"
	"syscall"
)

// syncData makes what was written inside f durable, without its times.
func syncData(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sync error
	err = raw.Control(func(fd uintptr) {
		for {
			if sync = syscall.Fdatasync(int(fd)); sync != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return sync
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
