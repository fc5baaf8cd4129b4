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
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program with a way to the network connects nowhere itself. Each of its connect calls waits
// (seccomp's user notification) until the doorkeeper, in the runner and outside the walls, has
// taken the program's socket, tied it to a loopback port, announced that port, and connected it to
// the door. So it does not matter what the program's memory says by then, and nobody else's
// connection passes for one of the program's.

// doorkeeper connects a program's sockets to its door.
type doorkeeper struct {
	door     netip.AddrPort
	direct   []netip.AddrPort
	listener int
	folders  []writable
}

// writable is a folder whose files the program may change, as it was before the program started:
// its name may lead elsewhere by now.
type writable struct {
	path string
	fd   int // for the life of this process
}

// open opens the folders before the program starts.
func (d *doorkeeper) open(folders []string) error {
	for _, path := range folders {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		d.folders = append(d.folders, writable{path, fd})
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

// maxConnecting bounds the connects that are answered at once.
const maxConnecting = 64

// run answers the program's connects until there is nobody left who could ask.
func (d *doorkeeper) run(announce func(from uint16, to netip.AddrPort) error) {
	slots := make(chan struct{}, maxConnecting)
	var mu sync.Mutex
	for {
		var n notification
		switch errno := control(d.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); errno {
		case 0:
		case unix.EINTR, unix.ENOENT: // who asked is gone
			continue
		default:
			return
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			r := response{id: n.id}
			err := error(unix.EPERM)
			if n.nr == unix.SYS_CONNECT {
				err = d.connect(&n, func(from uint16, to netip.AddrPort) error {
					mu.Lock()
					defer mu.Unlock()
					return announce(from, to)
				})
			} else if at, ok := chmods[n.nr]; ok {
				err = d.chmod(&n, at)
			}
			if err != nil {
				errno := unix.EACCES
				_ = errors.As(err, &errno)
				r.error = -int32(errno)
			}
			_ = control(d.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // else it is gone
		}()
	}
}

func control(fd int, request uint, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	return errno
}

// connect carries out one connect(fd, address, length) of the program.
func (d *doorkeeper) connect(n *notification, announce func(from uint16, to netip.AddrPort) error) error {
	to, err := wantedBy(int(n.pid), uintptr(n.args[1]), uint32(n.args[2]))
	if err != nil {
		return err
	}
	if to != d.door && !slices.Contains(d.direct, to) {
		_ = announce(0, to) // so that somebody can be told
		return unix.EACCES
	}
	process, err := unix.PidfdOpen(int(n.pid), unix.PIDFD_THREAD)
	if err != nil {
		return err
	}
	defer unix.Close(process)
	socket, err := unix.PidfdGetfd(process, int(int32(n.args[0])), 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	// Still the one who asked, and no other process under its number.
	if errno := control(d.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)); errno != 0 {
		return errno
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
	return unix.Connect(socket, &unix.SockaddrInet4{Addr: d.door.Addr().As4(), Port: int(d.door.Port())})
}

// wantedBy reads the address that a program wants to connect to.
func wantedBy(pid int, at uintptr, length uint32) (to netip.AddrPort, err error) {
	var address [unix.SizeofSockaddrInet4]byte
	if length < uint32(len(address)) || length > 128 {
		return to, unix.EINVAL
	}
	n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &address[0], Len: uint64(len(address))}}, []unix.RemoteIovec{{Base: at, Len: len(address)}}, 0)
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
func (d *doorkeeper) chmod(n *notification, at int) error {
	base := "cwd"
	if at >= 0 && int32(n.args[at]) != unix.AT_FDCWD {
		base = "fd/" + strconv.Itoa(int(int32(n.args[at])))
	}
	if n.nr == unix.SYS_FCHMODAT2 && n.args[3] != 0 {
		return unix.EOPNOTSUPP
	}
	path, err := textAt(int(n.pid), uintptr(n.args[at+1]))
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		folder, err := os.Readlink("/proc/" + strconv.Itoa(int(n.pid)) + "/" + base)
		if err != nil {
			return unix.EPERM
		}
		path = filepath.Join(folder, path)
	}
	for _, folder := range d.folders {
		rel, err := filepath.Rel(folder.path, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		file, err := unix.Openat2(folder.fd, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			return err
		}
		defer unix.Close(file)
		if errno := control(d.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)); errno != 0 {
			return errno
		}
		return unix.Chmod("/proc/self/fd/"+strconv.Itoa(file), uint32(n.args[at+2])&0o777)
	}
	return unix.EPERM
}

// textAt reads a text of a program, which ends with a zero byte.
func textAt(pid int, at uintptr) (string, error) {
	var text []byte
	for len(text) < unix.PathMax {
		part := make([]byte, 256-at%256) // within a page
		n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &part[0], Len: uint64(len(part))}}, []unix.RemoteIovec{{Base: at, Len: len(part)}}, 0)
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

// doors reports why a doorkeeper cannot work here; asked once.
var doors = sync.OnceValue(func() error {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if n, _ := strconv.Atoi(strings.TrimSpace(string(scope))); err == nil && n > 1 {
		return errors.New("the system lets no process look at another one")
	}
	process, err := unix.PidfdOpen(os.Getpid(), unix.PIDFD_THREAD)
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
