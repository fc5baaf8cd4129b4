package sandbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// TestMain is also the program that the tests start: it tries one thing and says how it went.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "try" {
		fmt.Println(try(os.Args[2], os.Args[3:]))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// landlock holds the tests to an older Landlock.
var landlock = flag.Int("landlock", 0, "the newest version of Landlock to use")

func try(what string, args []string) error {
	pid := func() int { n, _ := strconv.Atoi(args[0]); return n }
	switch what {
	case "read":
		_, err := os.ReadFile(args[0])
		return err
	case "write":
		return os.WriteFile(args[0], []byte("x"), 0o600)
	case "chmod":
		return os.Chmod(args[0], 0o666)
	case "chown":
		return os.Chown(args[0], os.Getuid(), os.Getgid())
	case "xattr":
		return unix.Setxattr(args[0], "user.x", []byte("y"), 0)
	case "truncate":
		return os.Truncate(args[0], 0)
	case "kill":
		return syscall.Kill(pid(), 0)
	case "limit":
		return unix.Prlimit(pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}, nil)
	case "fchmod", "futimes":
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		if what == "fchmod" {
			return f.Chmod(0o666)
		}
		return unix.UtimesNanoAt(int(f.Fd()), "", []unix.Timespec{{Sec: 1}, {Sec: 1}}, unix.AT_EMPTY_PATH)
	case "touch":
		return os.Chtimes(args[0], time.Unix(1, 0), time.Unix(1, 0))
	case "tgkill":
		return unix.Tgkill(pid(), pid(), 0)
	case "parent":
		return syscall.Kill(os.Getppid(), 0)
	case "child":
		sleeper := exec.Command("sleep", "60")
		if err := sleeper.Start(); err != nil {
			return err
		}
		err := syscall.Kill(sleeper.Process.Pid, syscall.SIGTERM)
		_ = sleeper.Wait()
		if err == nil && sleeper.ProcessState.Success() {
			err = errors.New("it was not ended")
		}
		return err
	case "begin": // many, which stay a while
		var all []*exec.Cmd
		for range pid() {
			c := exec.Command("sleep", "2")
			if err := c.Start(); err != nil {
				return err
			}
			all = append(all, c)
		}
		for _, c := range all {
			_ = c.Wait()
		}
		return nil
	case "exec":
		return syscall.Exec("/bin/true", []string{"true"}, nil)
	case "spin": // a Go program is told of its limit and goes on
		for began := time.Now(); time.Since(began) < 20*time.Second; {
		}
		return nil
	case "memory":
		_, err := unix.Mmap(-1, 0, pid()<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		return err
	case "owner":
		r, _, err := os.Pipe()
		if err != nil {
			return err
		}
		_, err = unix.FcntlInt(r.Fd(), unix.F_SETOWN, pid())
		return err
	case "names":
		_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUTS|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 {
			return nil
		}
		return errno
	case "priority":
		return unix.Setpriority(unix.PRIO_PROCESS, pid(), 19)
	case "affinity":
		var set unix.CPUSet
		return unix.SchedGetaffinity(0, &set)
	case "datagrams":
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		return err
	case "streams":
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	case "packets": // of a pair, sent to a socket that has a path: they go to the pair
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: args[0]}); err != nil {
			return err
		}
		if n, err := unix.Read(fds[1], make([]byte, 8)); err != nil || n != 1 {
			return fmt.Errorf("the pair has %d bytes: %v", n, err)
		}
		if unix.Connect(fds[0], &unix.SockaddrUnix{Name: args[0]}) == nil {
			return errors.New("a pair was connected to another socket")
		}
		return nil
	case "socket":
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		return err
	case "sockets": // so many, and the last one's error
		var err error
		for range pid() {
			_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		}
		return err
	case "say": // to an address, and what is answered
		return say(args[0])
	case "fast": // connects by sending
		to := netip.MustParseAddrPort(args[0])
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
	case "listen":
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Listen(fd, 1)
	case "open": // a socket of a kind
		kinds := map[string][3]int{
			"udp": {unix.AF_INET, unix.SOCK_DGRAM, 0}, "raw": {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP}, "mptcp": {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
			"unix": {unix.AF_UNIX, unix.SOCK_STREAM, 0}, "inet6": {unix.AF_INET6, unix.SOCK_STREAM, 0}, "netlink": {unix.AF_NETLINK, unix.SOCK_RAW, 0}, "tcp": {unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP},
		}
		k := kinds[args[0]]
		_, err := unix.Socket(k[0], k[1], k[2])
		return err
	case "crowd": // many at once, by many threads, with signals in between
		var all errgroup
		for range 40 {
			all.run(func() error { return say(args[0]) })
		}
		return all.wait()
	case "network":
		return tryNetwork(args[0])
	case "queue":
		_, _, errno := unix.Syscall6(unix.SYS_MSGRCV, 0, 0, 0, 0, unix.IPC_NOWAIT, 0)
		if errno == 0 {
			return nil
		}
		return errno
	case "report": // to the process that started us, in its runner's name
		for fd := 3; fd < 64; fd++ {
			if to, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); to == "anon_inode:[eventfd]" {
				continue // Go's own, of a runtime that waits for something
			}
			if _, err := unix.Write(fd, []byte("\x05\x00\x00\x00\x04haha\x04\x00\x00\x00\x00")); err == nil {
				return nil
			}
		}
		return errors.New("there is no descriptor")
	case "environment":
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
		return err
	}
	return errors.New("what?")
}

// say connects, says hello and wants it back.
func say(to string) error {
	c, err := net.Dial("tcp4", to)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	buf := make([]byte, 5)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "hello" {
		return fmt.Errorf("%q %w", buf, err)
	}
	return nil
}

type errgroup struct {
	sync.WaitGroup
	mu  sync.Mutex
	err error
}

func (g *errgroup) run(f func() error) {
	g.Go(func() {
		err := f()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.err = errors.Join(g.err, err)
	})
}

func (g *errgroup) wait() error { g.Wait(); return g.err }

// echo is a door that answers what it is told, to connections that were announced.
type echo struct {
	net.Listener
	direct []netip.AddrPort

	mu       sync.Mutex
	expected map[netip.AddrPort]netip.AddrPort
	tried    []netip.AddrPort
	names    map[string]netip.Addr
	strange  int
	closed   bool
}

func newEcho(t *testing.T, direct ...netip.AddrPort) *echo {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{Listener: listener, direct: direct, expected: map[netip.AddrPort]netip.AddrPort{}}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for range 200 { // it may be here before it was announced
					e.mu.Lock()
					_, ok := e.expected[c.RemoteAddr().(*net.TCPAddr).AddrPort()]
					e.mu.Unlock()
					if ok {
						_, _ = io.Copy(c, c)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
				e.mu.Lock()
				e.strange++
				e.mu.Unlock()
			}()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return e
}

func (e *echo) Addr() netip.AddrPort     { return e.Listener.Addr().(*net.TCPAddr).AddrPort() }
func (e *echo) Nowhere() bool            { return false }
func (e *echo) Direct() []netip.AddrPort { return e.direct }
func (e *echo) Names() map[string]netip.Addr {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.names
}
func (e *echo) Expect(from, to netip.AddrPort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expected[from] = to
}
func (e *echo) Tried(to netip.AddrPort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tried = append(e.tried, to)
}
func (e *echo) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return e.Listener.Close()
}

// A program with a door is connected to it and to nothing else, by whatever way it connects; the
// door hears of each connection, and of what was not connected.
func TestDoor(t *testing.T) {
	if _, err := box(t).Class(true); err != nil {
		t.Skip(err)
	}
	elsewhere, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	go func() {
		for {
			c, err := elsewhere.Accept()
			if err != nil {
				return
			}
			t.Error("somebody came round the door")
			_ = c.Close()
		}
	}()
	other := elsewhere.Addr().String()
	named := netip.MustParseAddrPort("10.255.255.1:7")
	for name, c := range map[string]struct {
		argv []string
		ok   bool
	}{
		"to the door":             {[]string{"say", ""}, true},
		"a crowd to the door":     {[]string{"crowd", ""}, true},
		"to what was named":       {[]string{"say", named.String()}, true},
		"to another service":      {[]string{"say", other}, false},
		"by sending, elsewhere":   {[]string{"fast", other}, false},
		"by sending, to the door": {[]string{"fast", ""}, false},
		"a listening socket":      {[]string{"listen"}, false},
		"tcp":                     {[]string{"open", "tcp"}, true},
		"udp":                     {[]string{"open", "udp"}, false},
		"raw":                     {[]string{"open", "raw"}, false},
		"mptcp":                   {[]string{"open", "mptcp"}, false},
		"unix":                    {[]string{"open", "unix"}, false},
		"inet6":                   {[]string{"open", "inet6"}, false},
		"netlink":                 {[]string{"open", "netlink"}, false},
		"datagrams":               {[]string{"datagrams"}, false},
	} {
		door := newEcho(t, named)
		for i := range c.argv {
			if c.argv[i] == "" {
				c.argv[i] = door.Addr().String()
			}
		}
		said := tried(t, sandbox.Program{Argv: c.argv, Door: door})
		if (said == "<nil>") != c.ok {
			t.Errorf("%s: %s", name, said)
		}
		door.mu.Lock()
		if name == "to another service" && (len(door.tried) != 1 || door.tried[0].String() != other) {
			t.Errorf("tried: %v", door.tried)
		}
		if door.strange > 0 || !door.closed {
			t.Errorf("%s: %d strangers, closed %v", name, door.strange, door.closed)
		}
		door.mu.Unlock()
	}
}

// A runner that is signalled all the time, as its own threads signal each other on a busy machine,
// answers each call of its program whole: no socket is lost on the way, and nobody waits in vain.
func TestDoorWhileItsRunnerIsSignalled(t *testing.T) {
	if _, err := box(t).Class(true); err != nil {
		t.Skip(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			for _, runner := range runners(t) {
				threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", runner)) // it may have ended
				for _, thread := range threads {
					if tid, err := strconv.Atoi(thread.Name()); err == nil {
						_ = unix.Tgkill(runner, tid, unix.SIGURG)
					}
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 10 {
		door := newEcho(t)
		if said := tried(t, sandbox.Program{Argv: []string{"crowd", door.Addr().String()}, Door: door}); said != "<nil>" {
			t.Error(said)
		}
	}
	close(stop)
	<-stopped
}

// runners are the processes of the runners that this one's guards started.
func runners(t *testing.T) (pids []int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		words, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline") // it may have ended
		exe, _ := os.Readlink("/proc/" + e.Name() + "/exe")
		if exe == self && strings.Contains(string(words), "\x00sandbox-runner") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A program with a door changes modes of files that it may write, and of no others: not by a link,
// by its working folder, nor with more rights than a file's own.
func TestModesInside(t *testing.T) {
	if _, err := box(t).Class(true); err != nil {
		t.Skip(err)
	}
	inside, outside := t.TempDir(), t.TempDir()
	for _, dir := range []string{inside, outside} {
		if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "a"), filepath.Join(inside, "link")); err != nil {
		t.Fatal(err)
	}
	p, err := box(t).Start(t.Context(), sandbox.Program{
		Argv: []string{"bash", "-c", `cd "$1" && chmod 6755 a; chmod 666 link; chmod 666 "$2/a"; chmod 666 ../*/a; cd "$2"; chmod 666 a; true`, "bash", inside, outside},
		Read: []string{outside}, Write: []string{inside}, Door: newEcho(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(p.Stdout()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]os.FileMode{inside: 0o755, outside: 0o600} {
		if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v: %s", dir, info.Mode(), err, want, p.Stderr())
		}
	}
}

// A folder that a link replaced since the program started is the one that it was: no mode of
// another place is changed.
func TestModesOfAFolderThatWasReplaced(t *testing.T) {
	if _, err := box(t).Class(true); err != nil {
		t.Skip(err)
	}
	outer, outside := t.TempDir(), t.TempDir()
	inside := filepath.Join(outer, "x")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{inside, outside} {
		if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := box(t).Start(t.Context(), sandbox.Program{
		Argv:  []string{"bash", "-c", `mv "$1" "$1-was" && ln -s "$2" "$1" && chmod 644 "$1/a"`, "bash", inside, outside},
		Write: []string{inside, outer}, Door: newEcho(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(p.Stdout()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(inside); err != nil || to != outside {
		t.Fatalf("the folder was not replaced: %v: %s", err, p.Stderr())
	}
	if info, err := os.Stat(filepath.Join(outside, "a")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// Stock programs find the door by their variables.
func TestADoorIsFound(t *testing.T) {
	if _, err := box(t).Class(true); err != nil {
		t.Skip(err)
	}
	door := newEcho(t)
	p, err := box(t).Start(t.Context(), sandbox.Program{Argv: []string{"env"}, Door: door})
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy", "npm_config_https_proxy"} {
		if !strings.Contains(string(out), name+"=http://"+door.Addr().String()+"\n") {
			t.Errorf("no %s in %s", name, out)
		}
	}
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}

func box(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	return heldTo(t, *landlock)
}

// heldTo is a sandbox with that version of Landlock at most; 0: with the kernel's.
func heldTo(t *testing.T, landlock int) *sandbox.Sandbox {
	t.Helper()
	s := sandbox.New(procguard.New(procguard.Options{}))
	if landlock > 0 {
		s = s.HeldTo(landlock)
	}
	if _, err := s.Class(false); err != nil {
		t.Skip(err)
	}
	return s
}

// tried starts this program behind walls and returns what it says.
func tried(t *testing.T, p sandbox.Program) string {
	t.Helper()
	return triedIn(t, box(t), p)
}

func triedIn(t *testing.T, s *sandbox.Sandbox, p sandbox.Program) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.Argv = append([]string{self, "try"}, p.Argv...)
	child, err := s.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	_ = child.Stdin().Close()
	out, err := io.ReadAll(child.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	if code, err := child.Wait(); err != nil || code != 0 {
		t.Fatalf("it ended with %d, %v: %s", code, err, child.Stderr())
	}
	return strings.TrimSpace(string(out))
}

// The same walls stand with the kernel's Landlock and with the oldest that will do, whose place
// seccomp takes (S1-37).
func TestWalls(t *testing.T) {
	for _, landlock := range []int{0, 4} {
		t.Run(fmt.Sprint("Landlock ", landlock), func(t *testing.T) { testWalls(t, heldTo(t, landlock)) })
	}
}

func testWalls(t *testing.T, s *sandbox.Sandbox) {
	inside, outside, readable := t.TempDir(), t.TempDir(), t.TempDir()
	hears := filepath.Join(inside, "socket")
	ear, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ear)
	if err := errors.Join(unix.Bind(ear, &unix.SockaddrUnix{Name: hears}), unix.Listen(ear, 4)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, _, err := unix.Accept(ear); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("a socket outside heard of a pair: %v", err)
		}
	}()
	file, seen := filepath.Join(outside, "a"), filepath.Join(readable, "a")
	for _, name := range []string{file, seen, filepath.Join(inside, "a")} {
		if err := os.WriteFile(name, []byte("seen"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(seen)
	if err != nil {
		t.Fatal(err)
	}
	own := strconv.Itoa(os.Getpid())
	for name, c := range map[string]struct {
		argv []string
		ok   bool
	}{
		"reads outside":                    {[]string{"read", file}, false},
		"writes outside":                   {[]string{"write", filepath.Join(outside, "b")}, false},
		"empties a file outside":           {[]string{"truncate", file}, false},
		"changes a mode outside":           {[]string{"chmod", file}, false},
		"changes an owner outside":         {[]string{"chown", file}, false},
		"sets an attribute outside":        {[]string{"xattr", file}, false},
		"reads what it may":                {[]string{"read", seen}, true},
		"changes a mode by an open file":   {[]string{"fchmod", seen}, false},
		"changes a time":                   {[]string{"touch", seen}, false},
		"changes a time by an open file":   {[]string{"futimes", seen}, false},
		"writes inside":                    {[]string{"write", filepath.Join(inside, "b")}, true},
		"changes a mode inside":            {[]string{"chmod", filepath.Join(inside, "a")}, true},
		"by an open file inside":           {[]string{"fchmod", filepath.Join(inside, "a")}, true},
		"changes a time inside":            {[]string{"touch", filepath.Join(inside, "a")}, true},
		"by an open file inside, too":      {[]string{"futimes", filepath.Join(inside, "a")}, true},
		"signals us":                       {[]string{"kill", own}, false},
		"signals us as a group":            {[]string{"kill", "-" + own}, false},
		"signals our thread":               {[]string{"tgkill", own}, false},
		"signals its runner":               {[]string{"parent"}, false},
		"signals itself":                   {[]string{"kill", "0"}, true},
		"signals what it started":          {[]string{"child"}, true},
		"has us signalled by a descriptor": {[]string{"owner", own}, false},
		"bounds us":                        {[]string{"limit", own}, false},
		"slows us":                         {[]string{"priority", own}, false},
		"asks about itself":                {[]string{"affinity"}, true},
		"datagrams":                        {[]string{"datagrams"}, false},
		"a pair of streams":                {[]string{"streams"}, true},
		"a pair of packets":                {[]string{"packets", hears}, true},
		"a socket":                         {[]string{"socket"}, false},
		"a queue of others":                {[]string{"queue"}, false},
		"a namespace for names":            {[]string{"names"}, false},
		"its runner's environment":         {[]string{"environment"}, false},
	} {
		said := triedIn(t, s, sandbox.Program{Argv: c.argv, Read: []string{readable}, Write: []string{inside}})
		if (said == "<nil>") != c.ok {
			t.Errorf("%s: %s", name, said)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || info.Size() != 4 {
		t.Errorf("the file outside is %v", info)
	}
	if info, err := os.Stat(seen); err != nil || info.Mode() != before.Mode() || !info.ModTime().Equal(before.ModTime()) {
		t.Errorf("the file that could be read is %v", info)
	}
	if info, err := os.Stat(filepath.Join(inside, "a")); err != nil || info.Mode().Perm() != 0o666 || info.ModTime().Unix() != 1 {
		t.Errorf("the file inside is %v of %v", info.Mode(), info.ModTime())
	}
}

// A program of class t0 starts nothing, has no folder, and little of everything (S1-13, S1-35).
func TestPure(t *testing.T) {
	for _, landlock := range []int{0, 4} {
		s := heldTo(t, landlock)
		for name, c := range map[string]struct {
			argv []string
			ok   bool
		}{
			"reads a file":      {[]string{"read", "/proc/self/mounts"}, false},
			"starts a program":  {[]string{"child"}, false},
			"becomes a program": {[]string{"exec"}, false},
			"a little memory":   {[]string{"memory", "16"}, true},
			"much memory":       {[]string{"memory", "512"}, false},
			"a pair of streams": {[]string{"streams"}, true},
		} {
			if said := triedIn(t, s, sandbox.Program{Argv: c.argv, Class: capabilities.ClassT0}); (said == "<nil>") != c.ok {
				t.Errorf("%s: %s", name, said)
			}
		}
		for name, p := range map[string]sandbox.Program{
			"a folder":           {Class: capabilities.ClassT0, Write: []string{t.TempDir()}},
			"a network":          {Class: capabilities.ClassT0, Door: newEcho(t)},
			"t1 with a network":  {Class: capabilities.ClassT1, Door: newEcho(t)},
			"a person's session": {Class: capabilities.ClassSession},
		} {
			p.Argv = []string{"true"}
			if _, err := s.Start(t.Context(), p); capabilities.AsError(err).Code != capabilities.CodeIsolationUnavailable {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A socket that a program without a network wants is refused and told of, once each. A connected
// pair is no way to anywhere, nor is what C libraries ask of this machine (S1-44).
func TestRefusedSocketsAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		argv []string
		told []string
	}{
		"IPv4":              {[]string{"socket"}, []string{"an IPv4 socket"}},
		"IPv6":              {[]string{"open", "inet6"}, []string{"an IPv6 socket"}},
		"datagrams":         {[]string{"open", "udp"}, []string{"an IPv4 socket"}},
		"several":           {[]string{"sockets", "3"}, []string{"an IPv4 socket", "an IPv4 socket", "an IPv4 socket"}},
		"of Unix":           {[]string{"open", "unix"}, nil},
		"of netlink":        {[]string{"open", "netlink"}, nil},
		"a pair of streams": {[]string{"streams"}, nil},
		"none":              {[]string{"memory", "1"}, nil},
	} {
		for _, class := range []capabilities.IsolationClass{capabilities.ClassT0, capabilities.ClassT1} {
			var mu sync.Mutex
			var told []string
			said := tried(t, sandbox.Program{Argv: c.argv, Class: class, Refused: func(socket string) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, socket)
			}})
			mu.Lock()
			if !slices.Equal(told, c.told) || len(c.told) > 0 && said != unix.EACCES.Error() {
				t.Errorf("%s, %s: told of %q, want %q; the program: %s", class, name, told, c.told, said)
			}
			mu.Unlock()
		}
	}
}

// A program that has more processes than it may is ended, and as root, too.
func TestProcesses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for most, ended := range map[uint64]bool{20: true, 60: false} {
		p, err := box(t).Start(t.Context(), sandbox.Program{Argv: []string{self, "try", "begin", "40"}, Limits: sandbox.Limits{Processes: most}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(p.Stdout())
		code, err := p.Wait()
		if err != nil || (code == -1) != ended || strings.Contains(p.Stderr(), "may have 20") != ended {
			t.Errorf("of %d: %d %v %s", most, code, err, p.Stderr())
		}
	}
}

// Each start says which walls stand; a class whose walls do not stand is refused with the wall's
// name and its fix (S1-37).
func TestWallsAreReported(t *testing.T) {
	s := box(t)
	p, err := s.Start(t.Context(), sandbox.Program{Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := p.Walls(); !slices.Contains(got, sandbox.WallFiles) || !slices.Contains(got, sandbox.WallNoConnection) || slices.Contains(got, sandbox.WallOneDoor) {
		t.Errorf("%v", got)
	}
	older := s.HeldTo(3)
	refused := capabilities.AsError(older.Check(capabilities.ClassT1, false))
	if refused.Code != capabilities.CodeIsolationUnavailable || !strings.Contains(refused.PublicMessage(), "files: the kernel's Landlock has version 3") || refused.PublicHint() == "" {
		t.Errorf("%v: %s", refused, refused.PublicHint())
	}
	if _, err := older.Start(t.Context(), sandbox.Program{Argv: []string{"true"}}); capabilities.AsError(err).Code != capabilities.CodeIsolationUnavailable {
		t.Errorf("it was started: %v", err)
	}
	lacking := map[capabilities.IsolationClass]int{}
	for _, w := range older.Walls(t.Context()) {
		if w.Deeper {
			continue
		}
		if (w.Err != nil) != (w.Wall == sandbox.WallFiles) || (w.Err == nil) != (w.Fix == "") {
			t.Errorf("%+v", w)
		}
		if w.Err != nil {
			lacking[w.Class]++
		}
	}
	if len(lacking) != len(sandbox.Classes) {
		t.Errorf("%v", lacking)
	}
}

// A program has no way to speak in its runner's name.
func TestAProgramCannotReport(t *testing.T) {
	if said := tried(t, sandbox.Program{Argv: []string{"report"}}); said == "<nil>" {
		t.Error("it wrote to a descriptor of its runner's")
	}
}

func TestAProgramEndsWithItsCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := box(t).Start(ctx, sandbox.Program{Argv: []string{"bash", "-c", "sleep 300 & echo began; sleep 300"}})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 6)
	if _, err := io.ReadFull(p.Stdout(), buf); err != nil {
		t.Fatal(err)
	}
	cancel()
	over := make(chan struct{})
	go func() {
		_, _ = p.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
}

// A command may be long, and nobody reads it on a command line.
func TestALongCommand(t *testing.T) {
	long := strings.Repeat("x", 120_000)
	p, err := box(t).Start(t.Context(), sandbox.Program{Argv: []string{"bash", "-c", "echo ${#1}", "bash", long}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil || strings.TrimSpace(string(out)) != "120000" {
		t.Errorf("%s %v", out, err)
	}
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}
