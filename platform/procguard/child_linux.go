package procguard

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// selfPath names the running program itself, even if an update replaced the
// file meanwhile: guard and parent must be of one build.
func selfPath() string { return "/proc/self/exe" }

// startChild starts the program with this process as the reaper of everything
// below it: a browser's helpers that lose their parent become our children, so
// none can escape.
func startChild(s spec) (*child, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	// The parent-death signal follows the thread, not the process (golang/go
	// 27505): this thread stays for the guard's life, since main never unlocks it.
	runtime.LockOSThread()
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if s.Apart {
		if err := apart(attr); err != nil {
			return nil, err
		}
	}
	pid, err := forkInto(s, attr)
	if err != nil {
		return nil, err
	}
	c := &child{pid: pid, exited: make(chan struct{}), gone: make(chan struct{})}
	go c.reap()
	return c, nil
}

// reap collects every ended process below the guard until none is left.
func (c *child) reap() {
	defer close(c.gone)
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: nothing is left, as orphans came to us
			return
		case pid == c.pid:
			close(c.exited)
		}
	}
}

// killAll kills everything below the guard, again and again until the last was
// reaped: a process may fork while it dies.
func (c *child) killAll() {
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		syscall.Kill(-c.pid, syscall.SIGKILL)
		for _, pid := range descendants(os.Getpid()) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-c.gone:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// killOrphans ends what a killed guard left. Its orphans are init's now and no
// longer ours to find by descent, but each carries the scratch folder's unique
// name in its environment or command line.
func killOrphans(pid int, scratch string) {
	if pid > 1 {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		other, err := strconv.Atoi(e.Name())
		if err != nil || other == os.Getpid() {
			continue
		}
		for _, file := range []string{"/environ", "/cmdline"} {
			if b, err := os.ReadFile("/proc/" + e.Name() + file); err == nil && bytes.Contains(b, []byte(scratch)) {
				syscall.Kill(other, syscall.SIGKILL)
				break
			}
		}
	}
}

// descendants lists every process below root: from what each thread started, where the kernel tells
// it (CONFIG_PROC_CHILDREN), else from what each process of the machine says of its parent.
func descendants(root int) []int {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		return closure(root, parents())
	}
	return closure(root, startedBy)
}

// closure returns all that children leads to from root, without it.
func closure(root int, children func(pid int) []int) []int {
	var all []int
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		below := children(queue[0])
		all, queue = append(all, below...), append(queue, below...)
	}
	return all
}

// startedBy returns what a process's threads started, and what was left to them.
func startedBy(pid int) []int {
	folder := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var all []int
	for _, thread := range threads {
		text, _ := os.ReadFile(folder + thread.Name() + "/children") // a thread may be gone
		for word := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(word)); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// parents reads every process of the machine, and returns what was started by which.
func parents() func(pid int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state ppid …: the name may hold anything, so cut at its end.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 {
			if ppid, err := strconv.Atoi(string(fields[1])); err == nil {
				children[ppid] = append(children[ppid], pid)
			}
		}
	}
	return func(pid int) []int { return children[pid] }
}
