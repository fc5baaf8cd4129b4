//go:build unix

package x11

import (
	"errors"
	"net"
	"syscall"
)

// writeWithFd writes a request with a descriptor beside it.
func writeWithFd(c net.Conn, p []byte, fd int) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return errors.New("x11: descriptors pass only over a local socket")
	}
	n, _, err := u.WriteMsgUnix(p, syscall.UnixRights(fd), nil)
	if err == nil && n < len(p) {
		_, err = c.Write(p[n:])
	}
	return err
}
