//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attributes returns what gives the program a session of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// walls reports what the kernel lacks; asked once.
var walls = sync.OnceValue(func() error {
	switch v := landlockVersion(); {
	case v < 1:
		return errors.New("the kernel has no Landlock")
	case v < leastVersion:
		return fmt.Errorf("the kernel's Landlock (version %d) does not keep signals and sockets inside", v)
	}
	return nil
})

// leastVersion is the first Landlock that scopes signals and abstract sockets, beside files.
const leastVersion = 6

// keepFromProgram has a descriptor closed in what this process starts.
func keepFromProgram(fd int) { unix.CloseOnExec(fd) }

// landlockVersion is the kernel's Landlock ABI; 0: none.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// raise puts the walls up around this process, for good: limits, files, system calls. The
// thread stays locked, and the program is started by it. The doorkeeper of a program that has a way
// to the network runs on other threads, which no wall is around.
func raise(o *order) (*doorkeeper, error) {
	var door *doorkeeper
	if o.Door.IsValid() {
		if !o.Door.Addr().Is4() {
			return nil, errors.New("the door has no IPv4 address")
		}
		door = &doorkeeper{door: o.Door, direct: o.Direct}
		if err := door.open(o.Write); err != nil {
			return nil, err
		}
	}
	for _, l := range []struct {
		resource int
		max      uint64
	}{{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, 1 << 30}, {unix.RLIMIT_NOFILE, 1024}, {unix.RLIMIT_MEMLOCK, 0}, {unix.RLIMIT_DATA, 4 << 30}, {unix.RLIMIT_NPROC, 4096}} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.resource, &now); err != nil {
			return nil, fmt.Errorf("limit %d: %w", l.resource, err)
		}
		most := min(l.max, now.Max) // nobody raises what the system gave
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return nil, fmt.Errorf("limit %d: %w", l.resource, err)
		}
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("no new privileges: %w", err)
	}
	if err := fence(o); err != nil {
		return nil, fmt.Errorf("Landlock: %w", err)
	}
	listener, err := filter(door != nil)
	if err != nil || door == nil {
		return nil, err
	}
	door.listener = listener
	return door, nil
}

const (
	readFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	readAll  = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeAll = readAll | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	everything = writeAll | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// systemFolders are what programs of a system need to run at all; nobody keeps their own
// files there.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/alternatives", "/etc/fonts", "/etc/ssl", "/etc/ca-certificates", "/etc/pki", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group",
	"/etc/hosts", "/etc/resolv.conf", "/etc/mime.types", "/etc/magic", "/etc/ImageMagick-6", "/etc/ImageMagick-7", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat",
	"/proc/version", "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu", "/sys/fs/cgroup", "/dev/urandom", "/dev/random", "/dev/zero"}

type rulesetAttr struct{ fs, net, scoped uint64 }

// pathAttr is struct landlock_path_beneath_attr, which is packed.
type pathAttr [12]byte

// fence restricts this thread to the files of o.
func fence(o *order) error {
	handled := uint64(everything | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE)
	attr := rulesetAttr{
		fs: handled, net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP,
		scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL,
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(fd))
	add := func(path string, access uint64) error {
		beneath, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer unix.Close(beneath)
		var st unix.Stat_t
		if err := unix.Fstat(beneath, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			access &= readFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
		}
		var rule pathAttr
		*(*uint64)(unsafe.Pointer(&rule[0])) = access & handled
		*(*int32)(unsafe.Pointer(&rule[8])) = int32(beneath)
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
			return fmt.Errorf("%s: %w", path, errno)
		}
		return nil
	}
	for _, path := range systemFolders {
		if err := add(path, readAll); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := add("/dev/null", readFile|unix.LANDLOCK_ACCESS_FS_WRITE_FILE); err != nil {
		return err
	}
	for _, path := range append(programFiles(o.Path), o.Read...) {
		if err := add(path, readAll); err != nil {
			return err
		}
	}
	for _, path := range o.Write {
		if err := add(path, writeAll|unix.LANDLOCK_ACCESS_FS_REFER|unix.LANDLOCK_ACCESS_FS_TRUNCATE); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// programFiles are what a program outside the system's folders is: the file itself, and the one
// that a link leads to. Whatever else it reads the caller names.
func programFiles(path string) []string {
	list := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		list = append(list, real)
	}
	return list
}

// Offsets in struct seccomp_data (linux/seccomp.h).
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// refusedCalls are what no program behind walls needs: making ways to others, watching them,
// changing the system.
var refusedCalls = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
	unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_MOUNT_SETATTR, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_MEMFD_SECRET,
	// Memory, messages and semaphores that the account's other programs have.
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGRCV, unix.SYS_MSGSND, unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	// Landlock knows no modes, owners and attributes: nobody's files are changed by name.
	unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	// A connected pair stays one, and nobody is waited for.
	unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_IOPRIO_SET,
}

// ownOnly are what a program may do to itself (its first argument is 0) and to no other.
var ownOnly = []uint32{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR}

// filter refuses refusedCalls, and every socket: a program has no way to the network, nor to
// services of the machine. A pair of connected sockets, which programs use inside, is none.
//
// With a door a program opens TCP sockets of IPv4. Each connect, and each change of a mode by name,
// waits for the doorkeeper, who makes the connection in its place, to the door alone. Landlock
// refuses every one that the program would make itself. The descriptor is what the doorkeeper
// listens on; else it is -1.
func filter(door bool) (listener int, err error) {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(how uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	end := func(what uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what} }
	refuse := end(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	program := []unix.SockFilter{
		load(offArch), jump(unix.BPF_JEQ, auditArch, 1, 0), end(unix.SECCOMP_RET_KILL_PROCESS),
		load(offNumber), jump(unix.BPF_JGE, 0x40000000, 0, 1), refuse,
		// A clone3 cannot be looked at: told that there is none, C libraries use clone.
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), end(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
	}
	noSocket, allow := end(unix.SECCOMP_RET_ERRNO|uint32(unix.EACCES)), end(unix.SECCOMP_RET_ALLOW)
	if door {
		program = append(program,
			jump(unix.BPF_JEQ, unix.SYS_CONNECT, 0, 1), end(unix.SECCOMP_RET_USER_NOTIF))
		for number := range chmods {
			program = append(program, jump(unix.BPF_JEQ, uint32(number), 0, 1), end(unix.SECCOMP_RET_USER_NOTIF))
		}
		program = append(program,
			jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 12),
			load(offArgs), jump(unix.BPF_JEQ, unix.AF_INET, 1, 0), noSocket,
			load(offArgs+8), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}, jump(unix.BPF_JEQ, unix.SOCK_STREAM, 1, 0), noSocket,
			load(offArgs+16), jump(unix.BPF_JEQ, 0, 2, 0), jump(unix.BPF_JEQ, unix.IPPROTO_TCP, 1, 0), noSocket, allow)
		// Sending may connect, too (TCP Fast Open), and nobody is asked then.
		for number, flags := range map[uint32]uint32{unix.SYS_SENDTO: 3, unix.SYS_SENDMSG: 2, unix.SYS_SENDMMSG: 3} {
			program = append(program, jump(unix.BPF_JEQ, number, 0, 4), load(offArgs+8*flags), jump(unix.BPF_JSET, unix.MSG_FASTOPEN, 0, 1), refuse, allow)
		}
	} else {
		program = append(program, jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 1), noSocket, jump(unix.BPF_JEQ, unix.SYS_CONNECT, 0, 1), refuse)
	}
	for _, number := range append(slices.Clone(refusedCalls), olderRefused...) {
		program = append(program, jump(unix.BPF_JEQ, number, 0, 1), refuse)
	}
	for _, number := range ownOnly {
		program = append(program, jump(unix.BPF_JEQ, number, 0, 4), load(offArgs), jump(unix.BPF_JEQ, 0, 1, 0), refuse, end(unix.SECCOMP_RET_ALLOW))
	}
	// Another's place in the queue: setpriority(which, who, …).
	program = append(program, jump(unix.BPF_JEQ, unix.SYS_SETPRIORITY, 0, 4), load(offArgs+8), jump(unix.BPF_JEQ, 0, 1, 0), refuse, end(unix.SECCOMP_RET_ALLOW))
	// A pair of datagram sockets sends to any socket that has a path; only streams are pairs.
	program = append(program,
		jump(unix.BPF_JEQ, unix.SYS_SOCKETPAIR, 0, 8),
		load(offArgs), jump(unix.BPF_JEQ, unix.AF_UNIX, 1, 0), refuse,
		load(offArgs+8), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf},
		jump(unix.BPF_JEQ, unix.SOCK_STREAM, 1, 0), refuse, end(unix.SECCOMP_RET_ALLOW))
	// New namespaces by clone would hold new rights.
	program = append(program, jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 3), load(offArgs), jump(unix.BPF_JSET, unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWNET|unix.CLONE_NEWPID, 0, 1), refuse,
		// Typing into the terminal that somebody started us from.
		load(offNumber), jump(unix.BPF_JEQ, unix.SYS_IOCTL, 0, 3), load(offArgs+8), jump(unix.BPF_JEQ, unix.TIOCSTI, 0, 1), refuse,
		end(unix.SECCOMP_RET_ALLOW))
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	var flags uintptr
	if door {
		// A program that was heard is interrupted by its end alone: no connection is made twice.
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return -1, fmt.Errorf("filter of system calls: %w", errno)
	}
	if !door {
		return -1, nil
	}
	return int(fd), nil
}
