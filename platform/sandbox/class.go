package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Wall is one wall around a program.
type Wall string

const (
	WallFiles        Wall = "files"        // Landlock: the folders that it names and no others
	WallCalls        Wall = "system calls" // seccomp: no sockets, no tracing, no mounts, no other modes
	WallSignals      Wall = "signals"      // to what the program started, and to nobody else
	WallPrivileges   Wall = "privileges"   // none is gained, and root's are dropped
	WallLimits       Wall = "limits"       // memory, files, processor time of each process
	WallProcesses    Wall = "processes"    // how many there may be; in t0 the program alone
	WallOneDoor      Wall = "one door"     // connections to its proxy alone
	WallNoConnection Wall = "no network"   // it opens no connection
	// WallNamespaces stands behind the others where the system has it, and no class needs it: other
	// files are not there, nor other processes or the machine's network.
	WallNamespaces Wall = "namespaces"
	// WallGroup stands behind the limits where the system lets this process have cgroups, and no class
	// needs it: it bounds what all processes of a program have together.
	WallGroup Wall = "cgroup"
)

// Keeps returns what a wall sees to, in a few words.
func (w Wall) Keeps() string {
	switch w {
	case WallFiles:
		return "no file outside the folders that it is given"
	case WallCalls:
		return "no sockets, no tracing, no mounts"
	case WallSignals:
		return "none to a program that it did not start"
	case WallPrivileges:
		return "none is gained, and root's are dropped"
	case WallLimits:
		return "memory, processor time and size of files of each process"
	case WallProcesses:
		return "how many there may be; of class t0 the program alone"
	case WallOneDoor:
		return "no connection but to its own proxy"
	case WallNoConnection:
		return "no connection at all"
	case WallNamespaces:
		return "other files and processes and the machine's network are not even there"
	case WallGroup:
		return "memory and processors of all its processes together"
	}
	return ""
}

var everyWall = []Wall{
	WallFiles, WallCalls, WallSignals, WallPrivileges, WallLimits, WallProcesses, WallOneDoor, WallNoConnection, WallNamespaces, WallGroup,
}

// Classes are those that programs run in here, the weakest first (S1-35). The class of a person's
// session is none of them: no wall of this package is around it.
var Classes = []capabilities.IsolationClass{capabilities.ClassT0, capabilities.ClassT1, capabilities.ClassT2, capabilities.ClassT3}

// Limits bound each process of a program; 0: the class's.
type Limits struct {
	CPU    uint64 // seconds of processor time; 0 in the class's row, too: none
	Memory uint64 // bytes of its data
	File   uint64 // bytes of a file that it writes
	// Processes is how many there may be at once, with the program itself.
	Processes uint64
	// Processors is how many it keeps busy at once, where it has a cgroup.
	Processors uint64
}

// rows are the limits of the classes. A server works in t1 and t2 for days, so their processor time
// is bounded by the call's deadline alone.
var rows = map[capabilities.IsolationClass]Limits{
	capabilities.ClassT0: {CPU: 1, Memory: 128 << 20, File: 16 << 20, Processes: 1, Processors: 1},
	capabilities.ClassT1: {Memory: 4 << 30, File: 1 << 30, Processes: 512, Processors: 4},
	capabilities.ClassT2: {Memory: 4 << 30, File: 1 << 30, Processes: 512, Processors: 4},
	capabilities.ClassT3: {CPU: 60, Memory: 4 << 30, File: 1 << 30, Processes: 512, Processors: 4},
}

// over returns l with the class's row in place of what it leaves open.
func (l Limits) over(row Limits) Limits {
	pick := func(own, class uint64) uint64 {
		if own > 0 {
			return own
		}
		return class
	}
	return Limits{
		pick(l.CPU, row.CPU), pick(l.Memory, row.Memory), pick(l.File, row.File), pick(l.Processes, row.Processes),
		pick(l.Processors, row.Processors),
	}
}

// Standing says whether a wall of a class stands here.
type Standing struct {
	Class capabilities.IsolationClass
	Wall  Wall
	By    string // what it stands on
	Err   error  // why it cannot stand; nil: it does
	Fix   string // with Err
	// Deeper says that the class stands without this wall, too.
	Deeper bool
}

// errRlimits says that a Sandbox was told to use no cgroups.
var errRlimits = errors.New("they are not used")

// required are the walls of a class with or without a way to the network.
func required(class capabilities.IsolationClass, net bool) []Wall {
	list := []Wall{WallFiles, WallCalls, WallSignals, WallPrivileges, WallLimits, WallProcesses}
	if net {
		return append(list, WallOneDoor)
	}
	return append(list, WallNoConnection)
}

// Deeper returns the walls that stand around such a program here beyond those of its class: so says
// its runner, too, once they stand. To try namespaces it starts a runner, the first time.
func (s *Sandbox) Deeper(ctx context.Context, p Program) []Wall {
	var all []Wall
	if !p.everything() && s.apart(ctx) == nil {
		all = append(all, WallNamespaces)
	}
	if _, err := groups(); err == nil && !s.host.rlimits {
		all = append(all, WallGroup)
	}
	return all
}

// everything reports whether a folder of the program is all that there is.
func (p *Program) everything() bool {
	return slices.Contains(p.Read, "/") || slices.Contains(p.Write, "/")
}

// Beyond returns those of a program's walls that its class does not need.
func Beyond(walls []Wall) []Wall {
	return slices.DeleteFunc(slices.Clone(walls), func(w Wall) bool { return w != WallNamespaces && w != WallGroup })
}

// Names joins the names of walls, for a text.
func Names(walls []Wall) string {
	names := make([]string, len(walls))
	for i, w := range walls {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}

// Walls says of each class which of its walls stand here. To try namespaces it starts a runner, the
// first time.
func (s *Sandbox) Walls(ctx context.Context) []Standing {
	var all []Standing
	none := s.apart(ctx)
	for _, class := range Classes {
		for _, w := range required(class, class == capabilities.ClassT2) {
			by, fix, err := s.host.stands(w)
			all = append(all, Standing{Class: class, Wall: w, By: by, Err: err, Fix: fix})
		}
		deeper := Standing{Class: class, Wall: WallNamespaces, By: "user, mount, pid, net, ipc, uts", Err: none, Deeper: true}
		if none != nil {
			deeper.By, deeper.Fix = "", "To have it, too, allow user namespaces (kernel.apparmor_restrict_unprivileged_userns=0; in a container, "+
				"the calls clone, unshare, mount and pivot_root)."
		}
		all = append(all, deeper)
		group := Standing{Class: class, Wall: WallGroup, Err: errRlimits, Deeper: true}
		if !s.host.rlimits {
			group.By, group.Err = groups()
		}
		if group.Err != nil {
			group.Fix = "To have it, too, run the node as a service of systemd, or as root, where cgroups can be written."
		}
		all = append(all, group)
	}
	return all
}

// Check says which wall of a class is missing here: CodeIsolationUnavailable (S1-37).
func (s *Sandbox) Check(class capabilities.IsolationClass, net bool) error {
	if !slices.Contains(Classes, class) {
		return capabilities.Errorf(capabilities.CodeIsolationUnavailable, "programs do not run in the class %q", class)
	}
	for _, w := range required(class, net) {
		if _, fix, err := s.host.stands(w); err != nil {
			return capabilities.Wrap(capabilities.CodeIsolationUnavailable, err,
				fmt.Sprintf("Programs of class %s cannot be confined on this system: %s: %v.", class, w, err)).WithHint(fix)
		}
	}
	return nil
}

// contract refuses a program that asks for more than its class has.
func (p *Program) contract() error {
	switch {
	case p.Class == capabilities.ClassT0 && len(p.Read)+len(p.Write)+len(p.Own) > 0:
		return errors.New("a program of class t0 has no folders")
	case p.Door != nil && (p.Class == capabilities.ClassT0 || p.Class == capabilities.ClassT1 && !p.Door.Nowhere()):
		return fmt.Errorf("a program of class %s has no network", p.Class)
	}
	return nil
}
