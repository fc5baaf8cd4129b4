//go:build unix

package procguard

import (
	"os"
	"os/exec"
	"syscall"
)

// inherit hands the guard the child's ends of the command pipe as descriptors 3
// and 4 and the locks from 5 on.
func inherit(cmd *exec.Cmd, _ *spec, childR, childW *os.File, locks, _ []*os.File) error {
	cmd.ExtraFiles = append([]*os.File{childR, childW}, locks...)
	// Its own session, so that a terminal's Ctrl-C does not reach it before it
	// has cleaned up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}

func quietSignals() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGPIPE}
}

// child is the program under guard.
type child struct {
	pid    int
	exited chan struct{} // the child itself ended
	gone   chan struct{} // nothing below the guard is left
}

// forkExec starts the child in its own process group.
func forkExec(s spec, attr *syscall.SysProcAttr) (int, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	for fd := 3; fd <= 6; fd++ { // pipe and at most two locks
		syscall.CloseOnExec(fd)
	}
	attr.Setpgid = true
	if s.User != nil {
		attr.Credential = &syscall.Credential{Uid: s.User.UID, Gid: s.User.GID}
	}
	pid, err := syscall.ForkExec(s.Path, append([]string{s.Path}, s.Args...), &syscall.ProcAttr{
		Dir: s.Scratch, Env: s.Env, Sys: attr,
		Files: []uintptr{null.Fd(), 2, 2, 3, 4},
	})
	if err == nil {
		// Only the child may hold its ends: it has to see the end of file.
		syscall.Close(3)
		syscall.Close(4)
	}
	return pid, err
}
