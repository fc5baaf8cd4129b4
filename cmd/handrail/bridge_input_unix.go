//go:build unix

package main

import (
	"io"
	"os"
	"syscall"
)

// polled returns in such that who waits for it holds no thread, if in is a pipe or a
// socket. Standard input is read by blocking, otherwise: the Go scheduler then keeps
// the processor with the thread that reads until its monitor finds out, and a request
// that came in waits for that, or for a second thread to be woken.
//
// Not to block is a setting of what the descriptor stands for, which others may hold,
// too. So what a terminal gives is left as it is (it is the shell's), and so is a
// socket that is among others, as sshd and inetd give one for input and output: what
// is written there would be cut off where the socket is full.
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
