//go:build unix && !linux

package procguard

import (
	"os"
	"syscall"
)

func selfPath() string {
	self, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return self
}

// startChild starts the program as the leader of its own process group, which
// is what there is to hold on to here.
func startChild(s spec) (*child, error) {
	pid, err := forkExec(s, &syscall.SysProcAttr{})
	if err != nil {
		return nil, err
	}
	c := &child{pid: pid, exited: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(c.gone)
		defer close(c.exited)
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
				return
			}
		}
	}()
	return c, nil
}

// killOrphans ends a child whose guard was killed.
func killOrphans(pid int, _ string) {
	if pid > 1 {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
}

func (c *child) killAll() {
	syscall.Kill(-c.pid, syscall.SIGKILL)
	<-c.gone
	syscall.Kill(-c.pid, syscall.SIGKILL) // helpers forked meanwhile
}
