//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// start starts the program in a session of its own.
func (*keeper) start(o *order, files []*os.File) (*os.Process, error) {
	return begin(o, files, &syscall.SysProcAttr{Setsid: true})
}

// exec lets the program itself start, and nothing after it.
func (k *keeper) exec() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.started {
		return unix.EPERM
	}
	k.started = true
	return nil
}

// fork lets the program itself begin; of class t0 nothing else. (A call that is heard may be
// interrupted by a signal before it is, which programs do not expect of a fork. So those of other
// classes are counted, and not asked.)
func (k *keeper) fork(tid int) error {
	if tid != k.self {
		return unix.EPERM
	}
	return nil
}

// watchEvery is how often the program's processes are counted.
const watchEvery = 250 * time.Millisecond

// watch says what the program has beyond its limits, once it has: more processes. Limits of an
// account (RLIMIT_NPROC) count whatever else it runs, and bound root not at all.
func (k *keeper) watch() string {
	for {
		time.Sleep(watchEvery)
		if n := k.count(); n > k.most {
			return fmt.Sprintf("it has %d processes and may have %d", n, k.most)
		}
	}
}

// count counts what the program started, with the program itself.
func (k *keeper) count() int {
	n := 0
	if k.root != os.Getpid() {
		n = -1 // this process is below the guard, too
	}
	for queue := []int{k.root}; len(queue) > 0 && n <= k.most; queue = queue[1:] {
		threads, _ := os.ReadDir("/proc/" + strconv.Itoa(queue[0]) + "/task") // it may have ended
		for _, thread := range threads {
			text, err := os.ReadFile("/proc/" + strconv.Itoa(queue[0]) + "/task/" + thread.Name() + "/children")
			if err != nil && thread.Name() == strconv.Itoa(k.self) { // a kernel without such files
				return len(k.processes())
			}
			for _, child := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(child); err == nil {
					queue, n = append(queue, pid), n+1
				}
			}
		}
	}
	return n
}

// wait waits for the program's end and returns its exit code, -1 if it was killed. The first
// process of a namespace takes in the orphans there, too.
func (k *keeper) wait(program *os.Process) int {
	if k.root != os.Getpid() {
		state, err := program.Wait()
		if err != nil {
			return -1
		}
		return state.ExitCode()
	}
	code := make(chan int, 1)
	go func() {
		for {
			var status unix.WaitStatus
			switch pid, err := unix.Wait4(-1, &status, 0, nil); {
			case errors.Is(err, unix.EINTR):
			case err != nil: // there is nobody left
				return
			case pid == program.Pid:
				code <- status.ExitStatus()
			}
		}
	}()
	return <-code
}

// end ends what the program left, again and again until that is heard of: some may begin others
// while they end.
func (k *keeper) end(over <-chan struct{}) {
	for {
		for _, p := range k.processes() {
			_ = k.send(p.pid, unix.SIGKILL)
		}
		select {
		case <-over:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// process is one below the root.
type process struct{ pid, parent, group int }

// processes lists what the program started: everything below the root but this process. Orphans
// are the root's.
func (k *keeper) processes() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]process{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := look(pid); ok {
				children[p.parent] = append(children[p.parent], p)
			}
		}
	}
	var all []process
	for queue := []int{k.root}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			if queue = append(queue, p.pid); p.pid != os.Getpid() {
				all = append(all, p)
			}
		}
	}
	return all
}

// ours reports whether a process is one of those.
func (k *keeper) ours(pid int) bool {
	if pid == os.Getpid() || k.root <= 1 && k.root != os.Getpid() {
		return false
	}
	for range 64 << 10 { // a process may end meanwhile; a circle cannot be
		p, ok := look(pid)
		switch {
		case !ok:
			return false
		case p.parent == k.root:
			return true
		case p.parent <= 1:
			return false
		}
		pid = p.parent
	}
	return false
}

// look reads what /proc/PID/stat says: pid (name) state ppid pgrp …; the name may hold anything.
func look(pid int) (process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 3 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	group, err2 := strconv.Atoi(fields[2])
	return process{pid, parent, group}, err1 == nil && err2 == nil
}

// status reads a number of /proc/TID/status.
func status(tid int, name string) (int, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return 0, unix.ESRCH
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.Atoi(strings.TrimSpace(rest))
		}
	}
	return 0, unix.ESRCH
}

// signal carries out kill, tkill and tgkill: to what the program started, and by thread to the
// sender's own process. Landlock does that where it scopes signals.
func (k *keeper) signal(n *notification) error {
	sender, err := status(int(n.pid), "Tgid")
	if err != nil {
		return err
	}
	number := unix.Signal(int32(n.args[1]))
	switch n.nr {
	case unix.SYS_TGKILL, unix.SYS_TKILL:
		group, tid := int(int32(n.args[0])), int(int32(n.args[1]))
		if n.nr == unix.SYS_TKILL {
			if group, err = status(int(int32(n.args[0])), "Tgid"); err != nil {
				return err
			}
			tid = int(int32(n.args[0]))
		} else {
			number = unix.Signal(int32(n.args[2]))
		}
		if group != sender {
			return unix.EPERM
		}
		return unix.Tgkill(group, tid, number)
	}
	to := int(int32(n.args[0]))
	if to > 0 {
		return k.send(to, number)
	}
	group := -to
	if to == 0 {
		p, ok := look(sender)
		if !ok {
			return unix.ESRCH
		}
		group = p.group
	}
	sent := error(unix.ESRCH)
	for _, p := range k.processes() {
		if to != -1 && p.group != group || to == -1 && p.pid == sender {
			continue
		}
		if err := k.send(p.pid, number); sent != nil {
			sent = err
		}
	}
	return sent
}

// send signals one process that the program started. The descriptor is of the one that was looked
// at, whatever gets its number later.
func (k *keeper) send(pid int, number unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !k.ours(pid) {
		return unix.EPERM
	}
	return unix.PidfdSendSignal(fd, number, nil, 0)
}
