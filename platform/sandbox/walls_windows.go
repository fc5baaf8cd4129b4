package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform/sandbox/relay"
)

// The walls of Windows are an AppContainer, which keeps files, other programs and the network away,
// and a Job Object, which keeps limits. None of this was run on Windows yet, and Wine has no
// AppContainer: a wall stands only where it was tried before, on this very system.

// elsewhere is the fix of a wall that Windows lacks.
const elsewhere = "Run such programs on a device with Linux, or as a WebAssembly module."

func (host) stands(w Wall) (by, fix string, err error) {
	found := trials()
	switch w {
	case WallFiles, WallCalls, WallSignals:
		by, err = "AppContainer", found.inside
	case WallPrivileges:
		by, err = "AppContainer, a token without privileges", found.inside
	case WallNoConnection:
		by, err = "AppContainer without capabilities", found.network
	case WallLimits:
		by, err = "Job Object; the size of files by the runner", found.limits
	case WallProcesses:
		by, err = "Job Object", found.processes
	case WallOneDoor:
		by, err = "a relay in the AppContainer, and its pipe", found.door
	default:
		return "", "", errors.New("there is no such wall")
	}
	if err != nil {
		return "", elsewhere, err
	}
	return by, "", nil
}

// around makes the program's AppContainer. This process outlives a runner that is killed, and takes
// it away.
func (host) around(o *order) (over func(), err error) {
	c, err := newContainer()
	if err != nil {
		return nil, err
	}
	err = c.furnish(o)
	if o.Door.IsValid() && err == nil {
		err = c.allowSelf()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	o.Container = c.name
	return c.close, nil
}

// pipes returns the two ends that a runner was started with ("123,456"), which no program of its
// gets.
func pipes(args []string) (orders, reports *os.File, err error) {
	if len(args) != 1 {
		return nil, nil, errors.New("there are no pipes")
	}
	first, second, _ := strings.Cut(args[0], ",")
	a, err1 := strconv.ParseUint(first, 10, 64)
	b, err2 := strconv.ParseUint(second, 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	for _, h := range []uint64{a, b} {
		if err := windows.SetHandleInformation(windows.Handle(h), windows.HANDLE_FLAG_INHERIT, 0); err != nil {
			return nil, nil, err
		}
	}
	return os.NewFile(uintptr(a), "orders"), os.NewFile(uintptr(b), "reports"), nil
}

// system are variables without which programs of Windows do not start, and those that would name a
// person's folders.
func system(scratch string) []string {
	env := []string{"TEMP=" + scratch, "TMP=" + scratch, "USERPROFILE=" + scratch, "APPDATA=" + scratch, "LOCALAPPDATA=" + scratch}
	for _, name := range []string{
		"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "ProgramFiles", "ProgramFiles(x86)", "ProgramW6432", "ProgramData",
		"NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE",
	} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// fence is of Linux: a container has all of the files.
type fence struct{}

func newFence(int) (*fence, error) { return &fence{}, nil }

func part() error { return errors.New("Windows has no namespaces") }

// keeper holds a program's job.
type keeper struct {
	sid    *windows.SID
	job    *job
	door   netip.AddrPort // invalid: it has none
	beyond chan string    // what the program has beyond its limits
	told   chan teller    // the runner's own, from run to start
}

// raise makes the job, and looks at the files that the program writes.
func raise(o *order, _ *fence) (*keeper, error) {
	if o.Container == "" {
		return nil, errNotInside
	}
	sid, err := containerNamed(o.Container)
	if err != nil {
		return nil, err
	}
	j, err := newJob(o.Limits)
	if err != nil {
		return nil, err
	}
	if len(o.Direct) > 0 {
		return nil, errors.New("on Windows a program connects by its proxy alone")
	}
	k := &keeper{sid: sid, job: j, door: o.Door, beyond: make(chan string, 1), told: make(chan teller, 1)}
	own := folderOf(o.Container)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	for _, dir := range append([]string{own}, o.Write...) {
		if err := k.measures(dir, o.Limits.File); err != nil {
			return nil, fmt.Errorf("limits: %w", err)
		}
	}
	return k, nil
}

func (k *keeper) run(to teller) { k.told <- to }

func (k *keeper) start(o *order, files []*os.File) (*os.Process, error) {
	if k.door.IsValid() {
		at, err := startRelay(k.sid, k.door, (<-k.told).connects)
		if err != nil {
			return nil, fmt.Errorf("one door: %w", err)
		}
		o.Env = relay.Through(o.Env, k.door, at)
	}
	return launch(o, files, k.sid, k.job)
}

// startRelay starts a program's relay in its container, in a job of its own that ends with this
// process.
func startRelay(sid *windows.SID, door netip.AddrPort, announce func(from uint16, to netip.AddrPort) error) (at netip.AddrPort, err error) {
	self, err := os.Executable()
	if err != nil {
		return at, err
	}
	j, err := newJob(Limits{Memory: relayMemory, Processes: 1})
	if err != nil {
		return at, err
	}
	its, mine, err := streams()
	if err != nil {
		j.close()
		return at, err
	}
	dir := os.Getenv("SystemRoot")
	o := &order{Path: self, Argv: []string{self, relayWord}, Env: system(dir), Dir: dir, Limits: Limits{Processes: 1}}
	_, err = launch(o, its[:], sid, j)
	for _, f := range its {
		_ = f.Close()
	}
	if err == nil {
		at, err = relay.Carry(relay.Pipe{In: mine[1], Out: mine[0]}, door, announce)
	}
	if err != nil {
		j.close()
	}
	return at, err
}

// relayWord is the first argument of a relay.
const relayWord = "sandbox-relay"

// other does not return where this process is of another kind than a runner: a trial of a wall, or
// a relay.
func other(word string, args []string) {
	switch {
	case word == trialWord:
		os.Exit(tryWall(args))
	case word == relayWord && len(args) == 0:
		if relay.Serve(relay.Pipe{In: os.Stdin, Out: os.Stdout}) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// relayMemory bounds a relay.
const relayMemory = 256 << 20

// watch says what the program has beyond its limits, once it has.
func (k *keeper) watch() string { return <-k.beyond }

func (k *keeper) wait(program *os.Process) int {
	state, err := program.Wait()
	if err != nil {
		return -1
	}
	code := int(int32(uint32(state.ExitCode())))
	if code == int(windows.ERROR_NOT_ENOUGH_QUOTA) { // its processor time is over
		return -1
	}
	return code
}

// end ends what the program left.
func (k *keeper) end(<-chan struct{}) { k.job.end() }

// measures looks at files below a folder as they grow, since no Job Object bounds them. A file that
// others make too large there ends the program, too: that is the safe side.
func (k *keeper) measures(dir string, most uint64) error {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return err
	}
	const shared = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	const how = windows.FILE_FLAG_BACKUP_SEMANTICS | windows.FILE_FLAG_OVERLAPPED
	folder, err := windows.CreateFile(path, windows.FILE_LIST_DIRECTORY, shared, nil, windows.OPEN_EXISTING, how, 0)
	if err != nil {
		return &fs.PathError{Op: "watch", Path: dir, Err: err}
	}
	m := &measure{folder: folder, buf: make([]uint32, 16<<10)}
	if m.over.HEvent, err = windows.CreateEvent(nil, 1, 0, nil); err == nil {
		err = m.ask()
	}
	if err != nil {
		_ = windows.CloseHandle(folder)
		return &fs.PathError{Op: "watch", Path: dir, Err: err}
	}
	go func() {
		defer windows.CloseHandle(folder)
		for {
			names, all, err := m.heard()
			if err != nil {
				return // the folder is gone
			}
			err = m.ask() // what changes from here on is kept for the next
			if all {
				names = below(dir)
			}
			for _, name := range names {
				if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() && uint64(info.Size()) > most {
					select {
					case k.beyond <- fmt.Sprintf("a file of its has %d bytes and may have %d", info.Size(), most):
					default:
					}
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return nil
}

// measure hears of changes below a folder.
type measure struct {
	folder windows.Handle
	buf    []uint32 // aligned as the system wants it
	over   windows.Overlapped
}

// ask asks for the next changes; it does not wait for them.
func (m *measure) ask() error {
	const changes = windows.FILE_NOTIFY_CHANGE_SIZE | windows.FILE_NOTIFY_CHANGE_FILE_NAME | windows.FILE_NOTIFY_CHANGE_LAST_WRITE
	err := windows.ReadDirectoryChanges(m.folder, (*byte)(unsafe.Pointer(&m.buf[0])), uint32(len(m.buf)*4), true, changes, nil, &m.over, 0)
	if errors.Is(err, windows.ERROR_IO_PENDING) {
		return nil
	}
	return err
}

// heard waits for them. all says that more changed than can be named.
func (m *measure) heard() (names []string, all bool, err error) {
	var n uint32
	if err := windows.GetOverlappedResult(m.folder, &m.over, &n, true); err != nil {
		return nil, false, err
	}
	names = changed(unsafe.Slice((*byte)(unsafe.Pointer(&m.buf[0])), n))
	return names, n == 0, nil
}

// below lists the files of a folder, without following links.
func below(dir string) (names []string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if rel, err := filepath.Rel(dir, path); err == nil {
				names = append(names, rel)
			}
		}
		return nil
	})
	return names
}
