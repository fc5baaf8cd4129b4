//go:build !linux

package x11

import (
	"errors"
	"net"
)

var errNoMemory = errors.New("x11: no memory is shared here")

func writeWithFd(*net.UnixConn, []byte, int) error { return errNoMemory }

func closeFd(int) {}

func newMemory(int) (int, []byte, func(), error) { return 0, nil, nil, errNoMemory }

func newSysvMemory(int) (int, []byte, func(), error) { return 0, nil, nil, errNoMemory }

func removeSysv(int) {}
