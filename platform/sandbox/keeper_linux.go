//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Some calls of a program wait (seccomp's user notification) until the keeper, in the runner and
// outside the walls, has answered them. The keeper makes a connection itself: it takes the
// program's socket, ties it to a loopback port, announces that port, and connects it to the door.
// So it does not matter what the program's memory says by then, and nobody else's connection
// passes for one of the program's. For the same reason it changes modes and times, and sends
// signals, itself. It lets the kernel go on only where the numbers of a call say all that it
// decides by.

// keeper answers what a program's calls ask.
type keeper struct {
	door     netip.AddrPort // invalid: none
	direct   []netip.AddrPort
	nowhere  bool // the door leads nowhere
	listener int
	folders  []writable
	self     int  // the thread that starts the program
	root     int  // the process below which all is that the program starts: the guard, or this one
	alone    bool // the program starts nothing
	scoped   bool // Landlock keeps signals inside
	most     int  // processes
	reads    *reads

	mu      sync.Mutex
	started bool // the program, by alone
}

// writable is a folder whose files the program may change, as it was before the program started:
// its name may lead elsewhere by now.
type writable struct {
	path string
	fd   int          // for the life of this process
	told *changedOnce // what is told of changes in it; nil: nothing
}

// changedOnce is a folder whose changes are told.
type changedOnce struct {
	folder string
	once   bool
	done   atomic.Bool
}

// open opens the folders before the program starts.
func (k *keeper) open(o *order) error {
	for _, path := range o.Write {
		var told *changedOnce
		if slices.Contains(o.Changes, path) {
			told = &changedOnce{folder: path, once: o.Once}
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		k.folders = append(k.folders, writable{path, fd, told})
		if real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil && real != path {
			k.folders = append(k.folders, writable{real, fd, told})
		}
	}
	return nil
}

// notification is struct seccomp_notif, response struct seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type response struct {
	id           uint64
	value        int64
	error, flags int32
}

// maxAnswering bounds the calls that are answered at once.
const maxAnswering = 64

// run answers the program's calls until there is nobody left who could ask.
func (k *keeper) run(to teller) {
	slots := make(chan struct{}, maxAnswering)
	for {
		var n notification
		switch _, errno := control(k.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); errno {
		case 0:
		case unix.ENOENT: // who asked is gone
			continue
		default:
			return
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			r := response{id: n.id}
			if err := k.answer(&n, &r, to); err != nil {
				errno := unix.EACCES
				_ = errors.As(err, &errno)
				r = response{id: n.id, error: -int32(errno)}
			}
			_, _ = control(k.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // else it is gone
		}()
	}
}

// answer carries out one call, or says in r that the kernel goes on with it.
func (k *keeper) answer(n *notification, r *response, to teller) error {
	switch n.nr {
	case unix.SYS_SOCKET:
		if k.door.IsValid() {
			switch odd := oddSocket(n); {
			case odd != "" && k.asks(n) == nil:
				_ = to.odd(odd)
			case k.nowhere && isLookup(n) && k.asks(n) == nil:
				_ = to.tried(tryLookup, "an IPv4 socket for datagrams")
			}
			return k.socket(n, r)
		}
		_ = to.refused(uint16(n.args[0]))
		return unix.EACCES
	case unix.SYS_CONNECT:
		return k.connect(n, to.connects)
	case unix.SYS_FCHMOD:
		return k.outside(n, owned{open: true}, to, k.chmodOpen(n))
	case unix.SYS_UTIMENSAT:
		return k.outside(n, owned{name: name{0, 1, before}, open: n.args[1] == 0}, to, k.utimes(n))
	case unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_SEND_SIGNAL:
		if k.signals(n, to); !k.scoped {
			return k.signal(n)
		}
		r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
		return nil
	case unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG:
		return k.sends(n, to.connects)
	case unix.SYS_EXECVE, unix.SYS_EXECVEAT:
		r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
		return k.spawning(n, to, k.exec())
	}
	if n.nr == unix.SYS_CLONE && n.args[0]&namespaces == 0 || slices.Contains(forks, n.nr) {
		r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
		return k.spawning(n, to, k.fork(int(n.pid)))
	}
	for _, calls := range []map[int32]attempt{attempts, doorAttempts} {
		if one, ok := calls[n.nr]; ok {
			k.tells(n, one, to)
			return unix.EPERM
		}
	}
	if at, ok := chmods[n.nr]; ok {
		return k.outside(n, owned{name: name{at, at + 1, before}}, to, k.chmod(n, at))
	}
	if words, ok := changing[n.nr]; ok {
		if k.asks(n) == nil {
			_ = to.tried(trySystem, words)
		}
		return unix.EPERM
	}
	if _, ok := tracing[n.nr]; ok {
		k.traces(n, to)
		return unix.EPERM
	}
	for _, calls := range []map[int32]owned{owning, olderOwning} {
		if one, ok := calls[n.nr]; ok {
			return k.outside(n, one, to, unix.EPERM)
		}
	}
	known := false
	if k.reads != nil {
		known = k.reads.look(k, n, to.wants)
	}
	for _, calls := range []map[int32]change{writing, olderWriting} {
		if c, ok := calls[n.nr]; ok {
			k.looks(n, &c, to)
			known = true
		}
	}
	if !known {
		return unix.EPERM
	}
	r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	return nil
}

// control does one thing with the listener. The kernel gives up where a signal comes while it
// waits for its own lock, and Go's threads signal each other on a busy machine: an answer that is
// not sent leaves the program waiting for ever.
func control(fd int, request uint, arg unsafe.Pointer) (value uintptr, errno unix.Errno) {
	for {
		value, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
		if errno != unix.EINTR {
			return value, errno
		}
	}
}

// asks reports why nobody waits for the answer any more; nil: it is the one who asked, and no other
// process under its number.
func (k *keeper) asks(n *notification) error {
	if _, errno := control(k.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)); errno != 0 {
		return errno
	}
	return nil
}

// connect carries out one connect(fd, address, length) of the program.
func (k *keeper) connect(n *notification, announce func(from uint16, to netip.AddrPort) error) error {
	to, err := wantedBy(int(n.pid), uintptr(n.args[1]), uint32(n.args[2]))
	if err != nil {
		return err
	}
	if to != k.door && !slices.Contains(k.direct, to) {
		_ = announce(0, to) // so that somebody can be told
		return unix.EACCES
	}
	process, err := openThread(int(n.pid))
	if err != nil {
		return err
	}
	defer unix.Close(process)
	socket, err := unix.PidfdGetfd(process, int(int32(n.args[0])), 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	if err := k.asks(n); err != nil {
		return err
	}
	for option, want := range map[int]int{unix.SO_DOMAIN: unix.AF_INET, unix.SO_TYPE: unix.SOCK_STREAM} {
		if is, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, option); err != nil || is != want {
			return unix.EACCES
		}
	}
	_ = unix.SetsockoptInt(socket, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 0) // the port has to be known
	_ = unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})          // one that was tried before has its port
	own, err := unix.Getsockname(socket)
	if err != nil {
		return err
	}
	from, ok := own.(*unix.SockaddrInet4)
	if !ok || from.Port == 0 || from.Addr != [4]byte{127, 0, 0, 1} {
		return unix.EACCES
	}
	if err := announce(uint16(from.Port), to); err != nil {
		return unix.EACCES
	}
	return unix.Connect(socket, &unix.SockaddrInet4{Addr: k.door.Addr().As4(), Port: int(k.door.Port())})
}

// openThread opens the process of a thread. An older kernel has descriptors of whole processes
// only, whose open files are those of its threads unless a thread parted with them.
func openThread(tid int) (int, error) {
	fd, err := unix.PidfdOpen(tid, unix.PIDFD_THREAD)
	if !errors.Is(err, unix.EINVAL) {
		return fd, err
	}
	pid, err := status(tid, "Tgid")
	if err != nil {
		return -1, err
	}
	return unix.PidfdOpen(pid, 0)
}

// wantedBy reads the address that a program wants to connect to.
func wantedBy(pid int, at uintptr, length uint32) (to netip.AddrPort, err error) {
	var address [unix.SizeofSockaddrInet4]byte
	if length < uint32(len(address)) || length > 128 {
		return to, unix.EINVAL
	}
	n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &address[0], Len: uint64(len(address))}},
		[]unix.RemoteIovec{{Base: at, Len: len(address)}}, 0)
	if err != nil || n != len(address) {
		return to, unix.EFAULT
	}
	if binary.NativeEndian.Uint16(address[:]) != unix.AF_INET {
		return to, unix.EAFNOSUPPORT
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(address[4:8])), binary.BigEndian.Uint16(address[2:])), nil
}

// chmod carries out one change of a mode of the program: below a folder that it may write, and of
// the file that the path leads to there. A program installs its files so.
func (k *keeper) chmod(n *notification, at int) error {
	if n.nr == unix.SYS_FCHMODAT2 && n.args[3] != 0 {
		return unix.EOPNOTSUPP
	}
	path, err := k.path(n, at)
	if err != nil {
		return err
	}
	return k.below(n, path, 0, func(file int) error {
		return unix.Chmod("/proc/self/fd/"+strconv.Itoa(file), uint32(n.args[at+2])&0o777)
	})
}

// path reads the path that is the argument after a folder's, at -1 of the first alone.
func (k *keeper) path(n *notification, at int) (string, error) {
	path, err := textAt(int(n.pid), uintptr(n.args[at+1]))
	if err != nil || filepath.IsAbs(path) {
		return path, err
	}
	base := "cwd"
	if at >= 0 && int32(n.args[at]) != unix.AT_FDCWD {
		base = "fd/" + strconv.Itoa(int(int32(n.args[at])))
	}
	folder, err := os.Readlink("/proc/" + strconv.Itoa(int(n.pid)) + "/" + base)
	if err != nil {
		return "", unix.EPERM
	}
	return filepath.Join(folder, path), nil
}

// utimes carries out utimensat(folder, path, times, flags), by the same rule; without a path it is
// of the open file.
func (k *keeper) utimes(n *notification) error {
	now := unix.Timespec{Nsec: unix.UTIME_NOW}
	times := [2]unix.Timespec{now, now}
	if n.args[2] != 0 {
		data := unsafe.Slice((*byte)(unsafe.Pointer(&times)), unsafe.Sizeof(times))
		got, err := unix.ProcessVMReadv(int(n.pid), []unix.Iovec{{Base: &data[0], Len: uint64(len(data))}},
			[]unix.RemoteIovec{{Base: uintptr(n.args[2]), Len: len(data)}}, 0)
		if err != nil || got != len(data) {
			return unix.EFAULT
		}
	}
	change := func(file int) error { return unix.UtimesNanoAt(file, "", times[:], unix.AT_EMPTY_PATH) }
	if n.args[1] == 0 {
		return k.ofOpen(n, change)
	}
	path, err := k.path(n, 0)
	if err != nil {
		return err
	}
	var how uint64
	switch n.args[3] {
	case 0:
	case unix.AT_SYMLINK_NOFOLLOW:
		how = unix.O_NOFOLLOW
	case unix.AT_EMPTY_PATH:
		return k.ofOpen(n, change)
	default:
		return unix.EINVAL
	}
	return k.below(n, path, how, change)
}

// below has change work on the file that a path leads to in a folder that the program may write.
func (k *keeper) below(n *notification, path string, how uint64, change func(file int) error) error {
	for _, folder := range k.folders {
		rel, err := filepath.Rel(folder.path, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		file, err := unix.Openat2(folder.fd, rel,
			&unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | how, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			return err
		}
		defer unix.Close(file)
		if err := k.asks(n); err != nil {
			return err
		}
		return change(file)
	}
	return unix.EPERM
}

// chmodOpen carries out fchmod(fd, mode).
func (k *keeper) chmodOpen(n *notification) error {
	return k.ofOpen(n, func(file int) error {
		return unix.Chmod("/proc/self/fd/"+strconv.Itoa(file), uint32(n.args[1])&0o777)
	})
}

// ofOpen has change work on a file that the program has open and that lies below a folder that it
// may write. That it could open the file says nothing; it may read many.
func (k *keeper) ofOpen(n *notification, change func(file int) error) error {
	open, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.args[0])), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return unix.EBADF
	}
	defer unix.Close(open)
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(open))
	if err != nil {
		return unix.EPERM
	}
	var want unix.Stat_t
	if err := unix.Fstat(open, &want); err != nil {
		return err
	}
	return k.below(n, path, 0, func(file int) error {
		var is unix.Stat_t
		if err := unix.Fstat(file, &is); err != nil || is.Dev != want.Dev || is.Ino != want.Ino {
			return unix.EPERM
		}
		return change(file)
	})
}

// textAt reads a text of a program, which ends with a zero byte.
func textAt(pid int, at uintptr) (string, error) {
	var text []byte
	for len(text) < unix.PathMax {
		part := make([]byte, 256-at%256) // within a page
		n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &part[0], Len: uint64(len(part))}}, []unix.RemoteIovec{{Base: at, Len: len(part)}},
			0)
		if err != nil || n <= 0 {
			return "", unix.EFAULT
		}
		if end := bytes.IndexByte(part[:n], 0); end >= 0 {
			return string(append(text, part[:end]...)), nil
		}
		text, at = append(text, part[:n]...), at+uintptr(n)
	}
	return "", unix.ENAMETOOLONG
}

// doors reports why a keeper cannot connect here; asked once.
var doors = sync.OnceValue(func() error {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if n, _ := strconv.Atoi(strings.TrimSpace(string(scope))); err == nil && n > 1 {
		return errors.New("the system lets no process look at another one")
	}
	process, err := openThread(os.Getpid())
	if err != nil {
		return err
	}
	defer unix.Close(process)
	got, err := unix.PidfdGetfd(process, process, 0)
	if err != nil {
		return err
	}
	return unix.Close(got)
})
