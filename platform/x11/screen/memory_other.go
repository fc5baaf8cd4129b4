//go:build !linux

package screen

import "errors"

var errNoMemory = errors.New("x11: no memory is shared here")

func newMemory(int) (int, []byte, func(), error) { return 0, nil, nil, errNoMemory }

func newSysvMemory(int) (int, []byte, func(), error) { return 0, nil, nil, errNoMemory }

func removeSysv(int) {}
