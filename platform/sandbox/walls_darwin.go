package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The walls of macOS are Seatbelt's, and rlimits. None of this was run on a Mac yet: a wall of
// Seatbelt's stands only where it was tried before. The others are missing, so that no class
// stands: macOS bounds the memory of no process, and a program that starts others can leave its
// runner.

const sandboxExec = "/usr/bin/sandbox-exec"

var (
	errNoMemory  = errors.New("macOS bounds the memory of no process")
	errLeaves    = errors.New("on macOS a program that a program starts can leave its runner")
	errRoot      = errors.New("on macOS root keeps its rights behind walls")
	errNoDoor    = errors.New("on macOS nobody makes connections in a program's place")
	errUnwatched = errors.New("Seatbelt let a program read what it must not")
)

const elsewhere = "Run such programs on a device with Linux, or as a WebAssembly module."

func (host) stands(w Wall) (by, fix string, err error) {
	switch w {
	case WallFiles, WallCalls, WallSignals, WallNoConnection:
		if err := tried(); err != nil {
			return "", elsewhere, err
		}
		return "Seatbelt", "", nil
	case WallPrivileges:
		if os.Geteuid() == 0 {
			return "", "Run the node as a person, not as root.", errRoot
		}
		return "Seatbelt", "", tried()
	case WallLimits:
		return "", elsewhere, errNoMemory
	case WallProcesses:
		return "", elsewhere, errLeaves
	}
	return "", elsewhere, errNoDoor
}

// tried starts two programs behind a profile, once: one that has to run, and one that must not read
// a file of ours.
var tried = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "handrail-seatbelt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	secret := filepath.Join(dir, "private")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		return err
	}
	run := func(argv ...string) error {
		o := &order{Path: argv[0], Argv: argv, Limits: Limits{Processes: 1}}
		return exec.CommandContext(ctx, sandboxExec, seatbelt(o)...).Run()
	}
	if err := run("/usr/bin/true"); err != nil {
		return err
	}
	if err := run("/bin/cat", secret); err == nil {
		return errUnwatched
	}
	return nil
})

// raise puts rlimits around this process, and has its program become one behind a profile.
func raise(o *order, _ *fence) (*keeper, error) {
	for i, dir := range o.Read {
		o.Read[i] = behindLinks(dir)
	}
	for i, dir := range o.Write {
		o.Write[i] = behindLinks(dir)
	}
	o.Path = behindLinks(o.Path)
	for what, most := range map[int]uint64{unix.RLIMIT_CPU: o.Limits.CPU, unix.RLIMIT_FSIZE: o.Limits.File, unix.RLIMIT_CORE: 0} {
		if most == 0 && what != unix.RLIMIT_CORE {
			continue
		}
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return nil, err
		}
	}
	o.Argv = append([]string{sandboxExec}, seatbelt(o)...)
	o.Path = sandboxExec
	return &keeper{}, nil
}

func behindLinks(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	return path
}

type keeper struct{}

func (*keeper) run(teller) {}

func (*keeper) start(o *order, files []*os.File) (*os.Process, error) {
	return begin(o, files, &syscall.SysProcAttr{Setpgid: true})
}

// watch never returns: no class stands here in which a program starts others.
func (*keeper) watch() string { select {} }

func (*keeper) wait(program *os.Process) int {
	state, err := program.Wait()
	if err != nil {
		return -1
	}
	return state.ExitCode()
}

// end has nobody to end, for the same reason.
func (*keeper) end(<-chan struct{}) {}

// fence is of Linux: a profile has all of the files.
type fence struct{}

func newFence(int) (*fence, error) { return &fence{}, nil }

func part() error { return errors.New("macOS has no namespaces") }
