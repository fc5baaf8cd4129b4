//go:build !linux

package wire

import (
	"errors"
	"net"
)

func writeWithFd(*net.UnixConn, []byte, int) error {
	return errors.New("x11: no descriptor is sent along here")
}

func closeFd(int) {}
