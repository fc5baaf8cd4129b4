//go:build !unix

package x11

import (
	"errors"
	"net"
)

func writeWithFd(net.Conn, []byte, int) error {
	return errors.New("x11: no descriptors can be passed here")
}
