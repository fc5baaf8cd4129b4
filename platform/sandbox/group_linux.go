package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is a tree of cgroups in which this process may make some: of version 2 one for all
// controllers, of version 1 one for each.
type hierarchy struct {
	dir         string // cgroups are made in it
	version     int
	controllers []string
}

// groupPrefix begins the names of our cgroups: handrail-PID-N, by the process that made them.
const groupPrefix = "handrail-"

// wanted are the controllers; without one of the first two there are no groups.
var wanted = []string{"memory", "pids", "cpu"}

// trees finds them, once, and takes away what a process left that is gone.
var trees = sync.OnceValues(func() ([]hierarchy, error) {
	mounts, err1 := os.ReadFile("/proc/self/mountinfo")
	own, err2 := os.ReadFile("/proc/self/cgroup")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for _, list := range [][]hierarchy{newTree(string(mounts), string(own)), oldTrees(string(mounts), string(own))} {
		var has []string
		for _, h := range list {
			has = append(has, h.controllers...)
		}
		if slices.Contains(has, "memory") && slices.Contains(has, "pids") {
			for _, h := range list {
				h.sweep()
			}
			return list, nil
		}
	}
	return nil, errors.New("this process may make no cgroup for memory and processes")
})

// groups says which controllers there are.
func groups() (by string, err error) {
	list, err := trees()
	if err != nil {
		return "", err
	}
	var names []string
	for _, h := range list {
		names = append(names, h.controllers...)
	}
	return fmt.Sprintf("cgroup %d: %s", list[0].version, strings.Join(names, ", ")), nil
}

// mount is one of /proc/self/mountinfo: its root in the file system, where it is, and its options.
type mount struct {
	root, at, kind string
	options        []string
}

// mountsOf reads them: number parent device root at options [tags] - kind source options.
func mountsOf(text string) (list []mount) {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, more := strings.Fields(before), strings.Fields(after)
		if ok && len(fields) >= 6 && len(more) >= 3 && strings.HasPrefix(more[0], "cgroup") {
			list = append(list, mount{root: fields[3], at: fields[4], kind: more[0], options: strings.Split(more[2], ",")})
		}
	}
	return list
}

// ownGroup returns this process's cgroup among the lines of /proc/self/cgroup
// (number:controllers:path). Version 2 has no controllers there.
func ownGroup(text, controller string) (string, bool) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 &&
			(controller == "" && parts[1] == "" || controller != "" && slices.Contains(strings.Split(parts[1], ","), controller)) {
			return parts[2], true
		}
	}
	return "", false
}

// folder is where a mount shows a cgroup.
func (m mount) folder(path string) (string, bool) {
	rel, err := filepath.Rel(m.root, path)
	if err != nil || rel != "." && !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.Join(m.at, rel), true
}

// newTree finds the innermost cgroup of version 2 that is this process's or above it, has nothing
// but cgroups in it or is the root, and hands controllers on to those.
func newTree(mounts, own string) []hierarchy {
	path, ok := ownGroup(own, "")
	if !ok {
		return nil
	}
	for _, m := range mountsOf(mounts) {
		dir, ok := m.folder(path)
		if m.kind != "cgroup2" || !ok {
			continue
		}
		for {
			if h := (hierarchy{dir: dir, version: 2, controllers: handedOn(dir, dir == m.at)}); len(h.controllers) > 0 && h.usable() {
				return []hierarchy{h}
			}
			if dir == m.at {
				break
			}
			dir = filepath.Dir(dir)
		}
	}
	return nil
}

// handedOn lists the controllers that a cgroup hands on. The root is asked to.
func handedOn(dir string, root bool) (list []string) {
	control := filepath.Join(dir, "cgroup.subtree_control")
	for _, name := range wanted {
		if root && !slices.Contains(wordsOf(control), name) && slices.Contains(wordsOf(filepath.Join(dir, "cgroup.controllers")), name) {
			_ = os.WriteFile(control, []byte("+"+name), 0)
		}
		if slices.Contains(wordsOf(control), name) {
			list = append(list, name)
		}
	}
	return list
}

func wordsOf(file string) []string {
	text, _ := os.ReadFile(file)
	return strings.Fields(string(text))
}

// oldTrees are those of version 1: cgroups are made in this process's own.
func oldTrees(mounts, own string) (list []hierarchy) {
	for _, name := range wanted {
		path, ok := ownGroup(own, name)
		if !ok {
			continue
		}
		for _, m := range mountsOf(mounts) {
			dir, ok := m.folder(path)
			if h := (hierarchy{dir: dir, version: 1, controllers: []string{name}}); ok && m.kind == "cgroup" && slices.Contains(m.options, name) &&
				h.usable() {
				list = append(list, h)
				break
			}
		}
	}
	return list
}

// usable reports whether cgroups can be made there, and processes put into them.
func (h hierarchy) usable() bool {
	if unix.Access(filepath.Join(h.dir, "cgroup.procs"), unix.W_OK) != nil {
		return false
	}
	dir := filepath.Join(h.dir, groupName())
	if os.Mkdir(dir, 0o755) != nil {
		return false
	}
	return unix.Rmdir(dir) == nil
}

var groupCount atomic.Uint64

func groupName() string {
	return groupPrefix + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatUint(groupCount.Add(1), 10)
}

// sweep removes groups whose maker is gone. Those that have processes stay.
func (h hierarchy) sweep() {
	left, _ := filepath.Glob(filepath.Join(h.dir, groupPrefix+"*"))
	for _, dir := range left {
		maker, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		if pid, err := strconv.Atoi(maker); err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = unix.Rmdir(dir)
		}
	}
}

// group is the cgroup of one runner and its program.
type group struct {
	name  string
	parts []hierarchy // with the folders of the group itself
	whole bool        // its runner is in all of them
	once  sync.Once
}

// newGroup makes a group in which nothing is; nil: there can be none here.
func newGroup() *group {
	list, err := trees()
	if err != nil {
		return nil
	}
	g := &group{name: groupName()}
	for _, h := range list {
		h.dir = filepath.Join(h.dir, g.name)
		if err := os.Mkdir(h.dir, 0o755); err != nil {
			g.remove()
			return nil
		}
		g.parts = append(g.parts, h)
	}
	return g
}

// folders are where its child begins.
func (g *group) folders() (list []string) {
	if g == nil {
		return nil
	}
	for _, h := range g.parts {
		list = append(list, h.dir)
	}
	return list
}

// hold has a process, which has started nothing yet, be in the group, if it can be. One that began
// there is; to put another one there takes the kernel tens of milliseconds. Without it the group
// bounds nothing, and goes with its runner.
func (g *group) hold(pid int) {
	if g == nil {
		return
	}
	is, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	for _, h := range g.parts {
		if h.has(string(is), g.name) {
			continue
		}
		if h.write("cgroup.procs", strconv.Itoa(pid)) != nil {
			return
		}
	}
	g.whole = true
}

// has reports whether a process is in the cgroup of that name in the hierarchy, by the lines of its
// /proc/PID/cgroup.
func (h hierarchy) has(is, name string) bool {
	controller := ""
	if h.version == 1 {
		controller = h.controllers[0]
	}
	path, ok := ownGroup(is, controller)
	return ok && filepath.Base(path) == name
}

// period is what a share of the processors is counted by, in microseconds.
const period = 100_000

// bound sets the limits of a program.
func (g *group) bound(l Limits) error {
	if g == nil || !g.whole {
		return errors.ErrUnsupported
	}
	memory, tasks := strconv.FormatUint(l.Memory+runnerMemory, 10), strconv.FormatUint(l.Processes*threadsOf+runnerThreads, 10)
	quota := "max"
	if l.Processors > 0 {
		quota = strconv.FormatUint(l.Processors*period, 10)
	}
	for _, h := range g.parts {
		for _, controller := range h.controllers {
			var err error
			switch {
			case controller == "pids":
				err = h.write("pids.max", tasks)
			case controller == "memory" && h.version == 2:
				err = h.write("memory.max", memory)
				_ = h.write("memory.swap.max", "0") // a kernel without swap has no such file
			case controller == "memory":
				err = h.write("memory.limit_in_bytes", memory)
				_ = h.write("memory.memsw.limit_in_bytes", memory)
			case h.version == 2:
				err = h.write("cpu.max", quota+" "+strconv.Itoa(period))
			case quota != "max":
				err = errors.Join(h.write("cpu.cfs_period_us", strconv.Itoa(period)), h.write("cpu.cfs_quota_us", quota))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (h hierarchy) write(file, text string) error {
	return os.WriteFile(filepath.Join(h.dir, file), []byte(text), 0)
}

// remove ends what is in the group and takes it away. Idempotent.
func (g *group) remove() {
	if g == nil {
		return
	}
	g.once.Do(func() {
		for _, h := range g.parts {
			if h.version == 2 {
				_ = h.write("cgroup.kill", "1")
			}
			// A process that has ended may be in it for a moment.
			for range 100 {
				if err := unix.Rmdir(h.dir); !errors.Is(err, unix.EBUSY) {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
	})
}
