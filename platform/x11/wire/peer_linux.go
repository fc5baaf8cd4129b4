package wire

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// peer returns the account that listens at the other end.
func peer(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if ctl := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); ctl != nil {
		return 0, ctl
	}
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

func owns(uid uint32, file string) bool {
	info, err := os.Stat(file)
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == uid && info.Mode().IsRegular()
}
