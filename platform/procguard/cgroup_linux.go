package procguard

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// A child that is moved into a cgroup after its start is moved by a lock of the whole machine: the
// kernel waits until every processor has passed by, for tens of milliseconds. One that begins there
// waits for nothing. Of version 2 the kernel makes it there; of version 1 this thread moves there
// by itself, which takes no such lock, starts it, and goes back.

// forkInto starts the child in the cgroups of its order, as far as that goes. This thread is
// locked.
func forkInto(s spec, attr *syscall.SysProcAttr) (pid int, err error) {
	var old []string
	for _, folder := range s.Cgroups {
		if unix.Access(tasksOf(folder), unix.F_OK) == nil {
			old = append(old, folder)
			continue
		}
		if fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			defer unix.Close(fd)
			attr.UseCgroupFD, attr.CgroupFD = true, fd
		}
	}
	defer enter(old)()
	if pid, err = forkExec(s, attr); err != nil && attr.UseCgroupFD {
		attr.UseCgroupFD = false // it may be that alone which is refused
		pid, err = forkExec(s, attr)
	}
	return pid, err
}

// tasksOf is the file of a cgroup of version 1 by which threads enter it.
func tasksOf(folder string) string { return filepath.Join(folder, "tasks") }

// enter moves this thread into cgroups of version 1; leave moves it to those that they were made
// in, where this process is.
func enter(folders []string) (leave func()) {
	var left []string
	leave = func() {
		for _, folder := range left {
			_ = moveTo(filepath.Dir(folder))
		}
	}
	for _, folder := range folders {
		if unix.Access(tasksOf(filepath.Dir(folder)), unix.W_OK) != nil || moveTo(folder) != nil {
			break // and so nobody stays in it who cannot leave
		}
		left = append(left, folder)
	}
	return leave
}

// moveTo moves this thread.
func moveTo(folder string) error {
	f, err := os.OpenFile(tasksOf(folder), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("0")
	return err
}
