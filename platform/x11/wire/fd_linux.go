package wire

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// writeWithFd writes a request with a descriptor beside it.
func writeWithFd(c *net.UnixConn, p []byte, fd int) error {
	n, _, err := c.WriteMsgUnix(p, syscall.UnixRights(fd), nil)
	if err == nil && n < len(p) {
		_, err = c.Write(p[n:])
	}
	return err
}

func closeFd(fd int) { _ = unix.Close(fd) }
