package sandbox_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

const python = "/usr/bin/python3"

// refused is a program that makes a call of the C library, which has to be refused (EPERM).
func refused(words ...string) []string {
	const call = "import ctypes, os, sys\nl = ctypes.CDLL(None, use_errno=True)\n" +
		"if getattr(l, sys.argv[1])(*[eval(a) for a in sys.argv[2:]]) != -1 or ctypes.get_errno() != 1: sys.exit('it has it')"
	return append([]string{python, "-c", call}, words...)
}

// calling is one that makes a call by its number.
func calling(number int, args ...string) []string {
	return refused(append([]string{"syscall", strconv.Itoa(number)}, args...)...)
}

// trying is one that does not mind whether its lines work.
func trying(lines string) []string {
	return []string{python, "-c", "import ctypes, os, signal, socket, subprocess\ntry:\n  " + strings.ReplaceAll(lines, "\n", "\n  ") + "\nexcept OSError: pass"}
}

// tells starts a program that may do what its class may, and returns what was told of it.
func tells(t *testing.T, name string, landlock int, argv []string, door sandbox.Door, read ...string) []string {
	t.Helper()
	var w told
	child, err := heldTo(t, landlock).Start(t.Context(), sandbox.Program{
		Argv: argv, Read: read, Door: door, Call: true,
		Keys:  []string{capabilities.KeySpawn, capabilities.KeyRead, capabilities.KeyWrite, capabilities.KeyLanguage + "python"},
		Wrote: w.wrote, Denied: func(key, what string) { w.wrote(key + " " + what) },
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = child.Stdin().Close()
	_, _ = io.Copy(io.Discard, child.Stdout())
	if _, err := child.Wait(); err != nil || strings.Contains(child.Stderr(), "it has it") || strings.Contains(child.Stderr(), "Traceback") {
		t.Errorf("%s (Landlock %d): %v %s", name, landlock, err, child.Stderr())
	}
	return slices.Compact(w.all()) // some try again
}

// A refused call is told where it aims at what is there and is not the program's own, or at rights
// that it does not have. It is not told where it only looks, is about the program itself, or about
// what is not there. Another way of the kernel to the program's own has a key of its own (S1-50).
func TestAttemptsAreToldByTheirAim(t *testing.T) {
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	const buffer = "ctypes.create_string_buffer(512)"
	const limits = "ctypes.byref((ctypes.c_ulong * 2)(64, 64))"
	signals := regexp.MustCompile(`kill|signal\.`)
	namespace := func(flags uint) string { return strconv.FormatUint(uint64(flags), 10) }
	for name, c := range map[string]struct {
		argv []string
		told []string
	}{
		"namespaces":                {refused("unshare", namespace(unix.CLONE_NEWUSER)), []string{capabilities.KeySystem + " unshare"}},
		"its own table of files":    {refused("unshare", namespace(unix.CLONE_FILES)), nil},
		"a child in namespaces":     {calling(unix.SYS_CLONE, namespace(unix.CLONE_NEWUTS|uint(unix.SIGCHLD)), "0", "0", "0", "0"), []string{capabilities.KeySystem + " clone of a namespace"}},
		"another's namespace":       {refused("setns", "0", "0"), []string{capabilities.KeySystem + " setns"}},
		"a mount's copy":            {calling(unix.SYS_OPEN_TREE, "-100", "b'/usr'", "1"), []string{capabilities.KeySystem + " open_tree"}},
		"a file's handle":           {calling(unix.SYS_NAME_TO_HANDLE_AT, "-100", "b'/usr'", buffer, buffer, "0"), nil},
		"the clock":                 {calling(unix.SYS_CLOCK_ADJTIME, "0", "ctypes.create_string_buffer(bytes([1]), 512)"), []string{capabilities.KeySystem + " clock_adjtime"}},
		"how the clock goes":        {calling(unix.SYS_CLOCK_ADJTIME, "0", buffer), nil},
		"the kernel's log":          {calling(unix.SYS_SYSLOG, "5", "None", "0"), []string{capabilities.KeySystem + " syslog"}},
		"how long that log is":      {calling(unix.SYS_SYSLOG, "10", "None", "0"), nil},
		"quotas":                    {calling(unix.SYS_QUOTACTL, strconv.Itoa(0x800008<<8), "b'/dev/none'", "0", buffer), []string{capabilities.KeySystem + " quotactl"}},
		"its quota":                 {calling(unix.SYS_QUOTACTL, strconv.Itoa(0x800007<<8), "b'/dev/none'", "0", buffer), nil},
		"its runner's end":          {refused("kill", "os.getppid()", "15"), []string{capabilities.KeyControl + " kill SIGTERM"}},
		"its runner's thread":       {calling(unix.SYS_TGKILL, "os.getppid()", "os.getppid()", "9"), []string{capabilities.KeyControl + " kill SIGKILL"}},
		"everybody":                 {trying("signal.signal(28, signal.SIG_IGN)\nos.kill(-1, 28)"), []string{capabilities.KeyControl + " kill SIGWINCH"}},
		"whether its runner is":     {refused("kill", "os.getppid()", "0"), nil},
		"a child of its own":        {trying("p = subprocess.Popen(['sleep', '60'])\np.kill()\np.wait()\nos.kill(0, 28)\nos.kill(os.getpid(), 28)\nsignal.raise_signal(28)"), nil},
		"a process that is not":     {trying("os.kill(4194303, 9)"), nil},
		"another's limits":          {refused("prlimit", "os.getppid()", "7", limits, "None"), []string{capabilities.KeyControl + " prlimit64"}},
		"its limits by its number":  {refused("prlimit", "os.getpid()", "7", limits, "None"), nil},
		"another's place":           {refused("setpriority", "0", "os.getppid()", "19"), []string{capabilities.KeyControl + " setpriority"}},
		"all of its account":        {refused("setpriority", "2", "os.getuid() or 65534", "19"), []string{capabilities.KeyControl + " setpriority"}},
		"its own place":             {refused("setpriority", "0", "os.getpid()", "19"), nil},
		"another's disk":            {calling(unix.SYS_IOPRIO_SET, "1", "os.getppid()", "0"), []string{capabilities.KeyControl + " ioprio_set"}},
		"a descriptor's owner":      {refused("fcntl", "0", "8", "os.getppid()"), []string{capabilities.KeyControl + " a descriptor's signals"}},
		"a descriptor's own":        {refused("fcntl", "0", "8", "os.getpid()"), nil},
		"a descriptor's by ioctl":   {refused("ioctl", "0", "0x8901", "ctypes.byref(ctypes.c_int(os.getppid()))"), []string{capabilities.KeyControl + " a descriptor's signals"}},
		"another's open files":      {calling(unix.SYS_KCMP, "os.getppid()", "os.getpid()", "0", "0", "0"), []string{capabilities.KeyTrace + " kcmp"}},
		"its own open files":        {calling(unix.SYS_KCMP, "os.getpid()", "os.getpid()", "0", "0", "1"), nil},
		"another's open file":       {calling(unix.SYS_PIDFD_GETFD, "os.pidfd_open(os.getppid())", "0", "0"), []string{capabilities.KeyTrace + " pidfd_getfd"}},
		"its own open file":         {calling(unix.SYS_PIDFD_GETFD, "os.pidfd_open(os.getpid())", "0", "0"), nil},
		"keys":                      {calling(unix.SYS_KEYCTL, "0", "-4", "1"), []string{capabilities.KeyKeyring + " keyctl"}},
		"a new key":                 {calling(unix.SYS_ADD_KEY, "b'user'", "b'x'", "b'y'", "1", "-4"), []string{capabilities.KeyKeyring + " add_key"}},
		"a key by its name":         {calling(unix.SYS_REQUEST_KEY, "b'user'", "b'x'", "None", "-4"), []string{capabilities.KeyKeyring + " request_key"}},
		"a ring":                    {calling(unix.SYS_IO_URING_SETUP, "4", buffer), []string{capabilities.KeyInterface + " io_uring_setup"}},
		"a ring that it has":        {calling(unix.SYS_IO_URING_ENTER, "0", "1", "0", "0", "None", "0"), []string{capabilities.KeySystem + " io_uring_enter"}},
		"a ring that is not":        {calling(unix.SYS_IO_URING_ENTER, "99", "1", "0", "0", "None", "0"), nil},
		"faults of its pages":       {calling(unix.SYS_USERFAULTFD, "1"), []string{capabilities.KeyInterface + " userfaultfd"}},
		"memory of its own":         {refused("shmget", "0", "8", "0o600"), nil},
		"memory that is not":        {refused("shmget", "0x7d1c0a", "8", "0"), nil},
		"a queue that is not":       {calling(unix.SYS_MQ_OPEN, "b'handrail-none'", "0", "0", "None"), nil},
		"a port":                    {trying("socket.socket().bind(('127.0.0.1', 9))"), []string{capabilities.KeyListen + " bind 127.0.0.1:9"}},
		"an address to connect by":  {trying("socket.socket().bind(('127.0.0.1', 0))"), nil},
		"others' connections":       {trying("socket.socket().listen()"), []string{capabilities.KeyListen + " listen"}},
		"connections by nobody":     {trying("socket.socketpair()[0].listen()"), nil},
		"a signal by a descriptor":  {trying("signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 15)"), []string{capabilities.KeyControl + " kill SIGTERM"}},
		"its own by a descriptor":   {trying("signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 28)"), nil},
		"a terminal that is none":   {refused("ioctl", "0", strconv.Itoa(unix.TIOCSTI), "b'x'"), nil},
		"a signal in a queue":       {trying("ctypes.CDLL(None).sigqueue(os.getppid(), 15, None)"), []string{capabilities.KeyControl + " kill SIGTERM"}},
		"a connection by a message": {trying("socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', 9))"), nil}, // its door is told
	} {
		for _, landlock := range []int{0, 4} {
			if landlock == 4 && (!signals.MatchString(strings.Join(c.argv, " ")) || strings.Contains(strings.Join(c.argv, " "), "pidfd")) {
				continue // it knows nothing of the others; to a descriptor there is no such call then
			}
			door := newEcho(t)
			if got := tells(t, name, landlock, c.argv, door); !slices.Equal(got, c.told) {
				t.Errorf("%s (Landlock %d): told of %q, want %q", name, landlock, got, c.told)
			}
			if name == "a connection by a message" {
				door.mu.Lock()
				if !slices.Equal(door.tried, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")}) {
					t.Errorf("Landlock %d: the door heard of %v", landlock, door.tried)
				}
				door.mu.Unlock()
			}
		}
	}
}

// Where no namespaces stand a program can aim at other programs of its account, and at what they
// share: that is told as well (S1-50).
func TestAttemptsAtOthersAreTold(t *testing.T) {
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	sleeper := exec.Command("sleep", "600")
	sleeper.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	})
	pid := strconv.Itoa(sleeper.Process.Pid)
	key := 0x7d000000 | os.Getpid()
	segment, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(segment, unix.IPC_RMID, nil) })
	shared, id := fmt.Sprint(key), fmt.Sprint(segment)
	for name, c := range map[string]struct {
		argv []string
		told []string
	}{
		"a process":            {refused("kill", pid, "15"), []string{capabilities.KeyControl + " kill SIGTERM"}},
		"a group":              {trying("os.kill(-" + pid + ", 15)"), []string{capabilities.KeyControl + " kill SIGTERM"}},
		"a group's place":      {refused("setpriority", "1", pid, "19"), []string{capabilities.KeyControl + " setpriority"}},
		"memory by its key":    {refused("shmget", shared, "8", "0"), []string{capabilities.KeyShared + " shmget"}},
		"memory by its number": {refused("shmat", id, "None", "0"), []string{capabilities.KeyShared + " shmat"}},
		"memory's end":         {refused("shmctl", id, "0", "None"), []string{capabilities.KeyShared + " shmctl"}},
		"how memory is":        {refused("shmctl", id, "2", "ctypes.create_string_buffer(512)"), nil},
	} {
		for _, landlock := range []int{0, 4} {
			if got := tells(t, name, landlock, c.argv, nil, "/"); !slices.Equal(got, c.told) {
				t.Errorf("%s (Landlock %d): told of %q, want %q", name, landlock, got, c.told)
			}
		}
	}
	if err := sleeper.Process.Signal(unix.Signal(0)); err != nil {
		t.Error("the other program:", err)
	}
}

// Programs that do nothing wrong, and what they start by themselves, are not told of anything:
// interpreters, their package managers, compilers, shells with jobs (S1-50).
func TestProgramsAtTheirWorkAreNotTold(t *testing.T) {
	base := t.TempDir()
	script := func(lines string) []string {
		return []string{"bash", "-c", "cd " + base + "; export HOME=" + base + "; " + lines}
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, c := range map[string]struct {
		needs string
		lines string
	}{
		"node":    {"node", `node -e 'const c=require("child_process"),w=require("worker_threads");new w.Worker("1",{eval:true});const p=c.spawn("sleep",["60"]);setTimeout(()=>p.kill(),100);require("fs").promises.readFile("/etc/passwd")'`},
		"npm":     {"npm", `npm --version`},
		"python":  {"python3", `/usr/bin/python3 -c 'import asyncio,ssl,subprocess,threading; asyncio.run(asyncio.sleep(0)); p=subprocess.Popen(["sleep","60"]); p.terminate(); p.wait(); t=threading.Thread(target=print); t.start(); t.join()'`},
		"pools":   {"python3", "/usr/bin/python3 -c 'import multiprocessing as m; p=m.Process(target=print); p.start(); p.join(); p=m.Process(target=__import__(\"time\").sleep,args=(60,)); p.start(); p.terminate(); p.join()'"},
		"git":     {"git", `git init -q g; cd g; git config user.email a@b.example; git config user.name a; echo 1 >a; git add a; git commit -qm a; git gc -q; git log >/dev/null; git clone -q . ../h`},
		"curl":    {"curl", `curl -s -m 5 http://` + listener.Addr().String() + `/ -o /dev/null; true`},
		"gcc":     {"gcc", `echo 'int main(){return 0;}' >x.c; gcc x.c -o x && ./x`},
		"a shell": {"bash", `sleep 60 & kill %1; wait; (trap 'exit 0' TERM; sleep 1 & wait) & kill $!; timeout 1 sleep 2; nice true; nohup true; kill -0 $$; ulimit -n 100`},
		"perl":    {"perl", `perl -e 'system("true"); kill 0, $$; my $p=fork//exit; $p or exec "sleep","60"; kill 15, $p; wait'`},
		"tools":   {"bash", `ps aux; free; uptime; df; id; ls -la /proc; date; tar czf x.tgz /etc/passwd; sort -R /etc/passwd; ionice true; ipcs; true`},
	} {
		if _, err := exec.LookPath(c.needs); err != nil {
			continue
		}
		for _, landlock := range []int{0, 4} {
			var w told
			child, err := heldTo(t, landlock).Start(t.Context(), sandbox.Program{
				Argv: script(c.lines), Write: []string{base}, Door: newEcho(t, listener.Addr().(*net.TCPAddr).AddrPort()),
				Env:   []string{"PATH=/usr/bin:/bin"},
				Wrote: w.wrote, Denied: func(key, what string) { w.wrote(key + " " + what) },
			})
			if err != nil {
				t.Fatal(err)
			}
			_ = child.Stdin().Close()
			_, _ = io.Copy(io.Discard, child.Stdout())
			code, err := child.Wait()
			if err != nil || len(w.all()) != 0 {
				t.Errorf("%s (Landlock %d): told of %q; %v %s", name, landlock, w.all(), err, child.Stderr())
			}
			if code != 0 {
				t.Errorf("%s (Landlock %d): exit code %d: %s", name, landlock, code, child.Stderr())
			}
			for _, left := range []string{"g", "h"} {
				_ = os.RemoveAll(filepath.Join(base, left))
			}
		}
	}
}
