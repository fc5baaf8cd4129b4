package escape

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// aims is where a hostile program finds what it is after.
type aims struct {
	Inside   string // the folder that it may write
	Readable string // one that it may read: a file "a" with seen
	Outside  string // another: a file "key" with canary
	Victim   int    // a process of ours that sleeps, in a group of its own
	TCP      string // a listener on loopback
	TCP6     string
	UDP      string
	Abstract string // the name of an abstract socket
	Socket   string // the path of a socket, in Readable
	Memory   int    // a segment of System V, with canary
}

const (
	canary = "canary-7d1c0a"
	seen   = "seen"
)

// hostile programs, each of which tries one thing. Its output is looked at for the canary only, but
// for probes, whose success is the call's own.
var hostile = map[string]func(a aims) error{
	// Files.
	"read a private file":                func(a aims) error { return show(filepath.Join(a.Outside, "key")) },
	"read it through a link":             func(a aims) error { return through(a, os.Symlink) },
	"read it through a second name":      func(a aims) error { return through(a, os.Link) },
	"read it through /proc/self/root":    func(a aims) error { return show("/proc/self/root" + filepath.Join(a.Outside, "key")) },
	"read it through another's folder":   func(a aims) error { return show(fmt.Sprintf("/proc/%d/cwd/key", a.Victim)) },
	"read it by its handle":              byHandle,
	"read another's environment":         func(a aims) error { return show(fmt.Sprintf("/proc/%d/environ", a.Victim)) },
	"read the account's password hashes": func(a aims) error { return show("/etc/shadow") },
	"write outside":                      func(a aims) error { return os.WriteFile(filepath.Join(a.Outside, "made"), nil, 0o600) },
	"write a file that it may read":      func(a aims) error { return os.WriteFile(filepath.Join(a.Readable, "a"), []byte("x"), 0o600) },
	"empty a file":                       func(a aims) error { return os.Truncate(filepath.Join(a.Readable, "a"), 0) },
	"remove a file":                      func(a aims) error { return os.Remove(filepath.Join(a.Readable, "a")) },
	"move a file out":                    func(a aims) error { return moved(a) },
	"make a folder outside":              func(a aims) error { return os.Mkdir(filepath.Join(a.Outside, "made"), 0o700) },
	"change a mode":                      func(a aims) error { return os.Chmod(filepath.Join(a.Readable, "a"), 0o777) },
	"change a mode by an open file":      func(a aims) error { return open(a, func(f *os.File) error { return f.Chmod(0o777) }) },
	"change an owner":                    func(a aims) error { return os.Chown(filepath.Join(a.Readable, "a"), 12345, -1) },
	"change an owner by an open file":    func(a aims) error { return open(a, func(f *os.File) error { return f.Chown(12345, -1) }) },
	"change a time": func(a aims) error {
		return os.Chtimes(filepath.Join(a.Readable, "a"), time.Unix(1, 0), time.Unix(1, 0))
	},
	"change a time by an open file": func(a aims) error {
		return open(a, func(f *os.File) error { return unix.Futimes(int(f.Fd()), make([]unix.Timeval, 2)) })
	},
	"set an attribute":                      func(a aims) error { return unix.Setxattr(filepath.Join(a.Readable, "a"), "user.x", []byte("y"), 0) },
	"leave a program that gives its rights": func(a aims) error { return leaves(a) },
	"make a device": func(a aims) error {
		return unix.Mknod(filepath.Join(a.Inside, "mem"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1)))
	},
	"fill the disk": func(a aims) error { return fill(a) },
	// Processes.
	"end a process":                   func(a aims) error { return unix.Kill(a.Victim, unix.SIGKILL) },
	"end a group":                     func(a aims) error { return unix.Kill(-a.Victim, unix.SIGKILL) },
	"end all that it may":             func(aims) error { return unix.Kill(-1, unix.SIGKILL) },
	"stop a process":                  func(a aims) error { return unix.Kill(a.Victim, unix.SIGSTOP) },
	"end a thread":                    func(a aims) error { return unix.Tgkill(a.Victim, a.Victim, unix.SIGKILL) },
	"have a descriptor end a process": owner,
	"trace a process":                 func(a aims) error { return traced(a) },
	"write a process's memory":        func(a aims) error { return memoryOf(a) },
	"bound a process": func(a aims) error {
		return unix.Prlimit(a.Victim, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 7, Max: 7}, nil)
	},
	"slow a process":          func(a aims) error { return unix.Setpriority(unix.PRIO_PROCESS, a.Victim, 19) },
	"go on after its end":     orphan,
	"begin without end":       bomb,
	"take memory without end": func(aims) error { return take() },
	"read memory of others":   segment,
	// Network.
	"connect to a service":             func(a aims) error { return say("tcp", a.TCP) },
	"connect by IPv6":                  func(a aims) error { return say("tcp6", a.TCP6) },
	"connect by sending":               fast,
	"send a datagram":                  func(a aims) error { return say("udp", a.UDP) },
	"connect to an abstract socket":    func(a aims) error { return say("unix", a.Abstract) },
	"connect to a socket that it sees": func(a aims) error { return say("unix", a.Socket) },
	"listen for others":                listen,
	// Probes: the kernel's rare doors. Success is the call's own.
	"probe: raw socket":    func(aims) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
	"probe: packet socket": func(aims) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) },
	"probe: netlink":       func(aims) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, 0) },
	"probe: vsock":         func(aims) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) },
	"probe: io_uring":      func(aims) error { return number(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&[256]byte{}))) },
	"probe: bpf":           func(aims) error { return number(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&[16]uint32{2, 4, 4, 1})), 64) },
	"probe: keys":          func(aims) error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true); return err },
	"probe: userfaultfd":   func(aims) error { return number(unix.SYS_USERFAULTFD, 1) },
	"probe: performance events": func(aims) error {
		return number(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&unix.PerfEventAttr{Type: 1, Size: 128})), 0, ^uintptr(0), ^uintptr(0))
	},
	"probe: user namespace":   func(aims) error { return clone(unix.CLONE_NEWUSER) },
	"probe: other namespaces": func(aims) error { return clone(unix.CLONE_NEWUTS) },
	"probe: mount":            func(a aims) error { return unix.Mount("none", a.Inside, "tmpfs", 0, "") },
	"probe: change root":      func(a aims) error { return unix.Chroot(a.Inside) },
}

// curious programs look at what lies outside. They get at nothing, and where namespaces stand they
// see nothing, either.
var curious = map[string]func(a aims) error{
	"see the size of a private file": func(a aims) error { _, err := os.Stat(filepath.Join(a.Outside, "key")); return err },
	"see a folder elsewhere":         func(a aims) error { _, err := os.Stat("/root"); return err },
	"see a process": func(a aims) error {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", a.Victim))
		return err
	},
}

// harmless programs have to work.
var harmless = map[string]func(a aims) error{
	"writes its folder":  func(a aims) error { return os.WriteFile(filepath.Join(a.Inside, "made"), nil, 0o600) },
	"reads what it may":  func(a aims) error { return show(filepath.Join(a.Readable, "a")) },
	"installs a program": func(a aims) error { return os.Chmod(filepath.Join(a.Inside, "own"), 0o755) },
	"keeps a file's time": func(a aims) error {
		return os.Chtimes(filepath.Join(a.Inside, "own"), time.Unix(1, 0), time.Unix(1, 0))
	},
	"runs a shell":         func(aims) error { return exec.Command("sh", "-c", "ls / | sort >/dev/null").Run() },
	"ends what it started": func(aims) error { return exec.Command("sh", "-c", "sleep 60 & kill $! && ! wait $!").Run() },
	"ends a group of its": func(aims) error {
		return exec.Command("timeout", "--preserve-status", "-s", "TERM", "1", "sh", "-c", "trap 'exit 0' TERM; sleep 5 & wait").Run()
	},
	"has a pair of sockets": func(aims) error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
}

func show(path string) error {
	text, err := os.ReadFile(path)
	fmt.Printf("%s\n", text)
	return err
}

func through(a aims, link func(old, name string) error) error {
	name := filepath.Join(a.Inside, "link")
	if err := link(filepath.Join(a.Outside, "key"), name); err != nil {
		return err
	}
	return show(name)
}

func byHandle(a aims) error {
	handle, at, err := unix.NameToHandleAt(unix.AT_FDCWD, filepath.Join(a.Outside, "key"), 0)
	if err != nil {
		return err
	}
	_ = at
	root, err := os.Open(a.Inside)
	if err != nil {
		return err
	}
	fd, err := unix.OpenByHandleAt(int(root.Fd()), handle, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return show("/proc/self/fd/" + strconv.Itoa(fd))
}

func open(a aims, change func(*os.File) error) error {
	f, err := os.Open(filepath.Join(a.Readable, "a"))
	if err != nil {
		return err
	}
	defer f.Close()
	return change(f)
}

func moved(a aims) error {
	return os.Rename(filepath.Join(a.Inside, "own"), filepath.Join(a.Outside, "made"))
}

func leaves(a aims) error {
	name := filepath.Join(a.Inside, "own")
	return errors.Join(os.Chmod(name, 0o755|os.ModeSetuid), unix.Fchmodat(unix.AT_FDCWD, name, 0o6755, 0))
}

func fill(a aims) error {
	f, err := os.Create(filepath.Join(a.Inside, "big"))
	if err != nil {
		return err
	}
	return f.Truncate(3 << 30)
}

func owner(a aims) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	_, err1 := unix.FcntlInt(uintptr(fds[0]), unix.F_SETOWN, a.Victim)
	err2 := unix.IoctlSetPointerInt(fds[0], 0x8901, a.Victim)
	_, err3 := unix.FcntlInt(uintptr(fds[0]), unix.F_SETSIG, int(unix.SIGKILL))
	_, err4 := unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_ASYNC)
	_, err5 := unix.Write(fds[1], []byte("x"))
	return errors.Join(err1, err2, err3, err4, err5)
}

func traced(a aims) error {
	if err := unix.PtraceSeize(a.Victim); err != nil {
		return err
	}
	return unix.Kill(a.Victim, unix.SIGKILL)
}

func memoryOf(a aims) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", a.Victim), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	fmt.Println(canary) // it could
	return f.Close()
}

func orphan(a aims) error {
	c := exec.Command("setsid", "sh", "-c", "cd "+a.Inside+"; touch going; (while [ -e going ]; do echo x >>alive; sleep 0.05; done) >/dev/null 2>&1 &")
	return c.Run()
}

// bombs is how many processes a bomb begins.
const bombs = 250

func bomb(aims) error {
	var begun int
	for range bombs {
		if c := exec.Command("sleep", "60"); c.Start() == nil {
			begun++
		}
	}
	time.Sleep(2 * time.Second)
	fmt.Println("begun", begun)
	return nil
}

func take() error {
	data, err := unix.Mmap(-1, 0, 6<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	fmt.Printf("took %d GiB\n", len(data)>>30)
	return nil
}

func segment(a aims) error {
	at, err := unix.SysvShmAttach(a.Memory, 0, unix.SHM_RDONLY)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", at[:len(canary)])
	return nil
}

func say(network, to string) error {
	c, err := net.DialTimeout(network, to, 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(canary))
	return err
}

func fast(a aims) error {
	to, err := net.ResolveTCPAddr("tcp4", a.TCP)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte(canary), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Addr: [4]byte(to.IP.To4()), Port: to.Port})
}

// listen is looked at from outside, which connects to the port.
func listen(a aims) error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	if err := os.WriteFile(filepath.Join(a.Inside, "port"), []byte(l.Addr().String()), 0o600); err != nil {
		return err
	}
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Second))
	c, err := l.Accept()
	if err != nil {
		return err
	}
	return c.Close()
}

func socket(domain, kind, protocol int) error {
	_, err := unix.Socket(domain, kind, protocol)
	return err
}

func number(nr uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0, 0, 0, 0)
	if _, _, errno := unix.Syscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
		return errno
	}
	return nil
}

// clone begins a process with a namespace of its own, which ends at once.
func clone(namespace int) error {
	c := exec.Command("true")
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: uintptr(namespace)}
	return c.Run()
}
