//go:build unix

package bridge

import (
	"io"
	"os"
	"syscall"
)

func polled(in io.Reader, others ...any) io.Reader {
	f, ok := in.(*os.File)
	if !ok {
		return in
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return in
	}
	for _, o := range others {
		if o, ok := o.(*os.File); ok {
			if other, err := o.Stat(); err != nil || os.SameFile(info, other) {
				return in
			}
		}
	}
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return in
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return in
	}
	return os.NewFile(uintptr(fd), f.Name()) // which asks the descriptor whether it may be polled
}
