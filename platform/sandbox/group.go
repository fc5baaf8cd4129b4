package sandbox

import "github.com/handrail-dev/handrail/platform"

// A cgroup bounds what all processes of a program have together. It stands behind the limits of
// each process, where this process may make cgroups, and nothing rests on it.

// runnerMemory is what the runner, which is in its program's group, may have beside it; threadsOf
// how many threads a process may have on average, and runnerThreads those of the runner.
const (
	runnerMemory  = 64 << 20
	threadsOf     = 8
	runnerThreads = 56
)

// grouped is a runner with its group; nil: it has none.
type grouped struct {
	platform.Process
	group *group
}

// group makes one for a runner, in which the program will be, too; nil: it has none.
func (h host) group() *group {
	if h.rlimits {
		return nil
	}
	return newGroup()
}

// groupOf returns a runner's group; nil: it has none.
func groupOf(child platform.Process) *group {
	if g, ok := child.(*grouped); ok {
		return g.group
	}
	return nil
}

// ended ends a runner, and leaves its group for later: to take it away takes a while.
func ended(child platform.Process) error {
	if g, ok := child.(*grouped); ok {
		return g.Process.Close()
	}
	return child.Close()
}

// Close ends the runner, and takes its group away behind it.
func (g *grouped) Close() error {
	err := g.Process.Close()
	g.group.remove()
	return err
}
