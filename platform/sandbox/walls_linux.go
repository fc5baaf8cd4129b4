//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stands says what a wall stands on here, or why it cannot stand.
func (h host) stands(w Wall) (by, fix string, err error) {
	version := min(h.landlock, landlockVersion())
	switch w {
	case WallFiles:
		fix = "It takes a Linux kernel from 6.7 with Landlock switched on (lsm=landlock)."
		switch {
		case version < 1:
			return "", fix, errors.New("the kernel has no Landlock")
		case version < leastLandlock:
			return "", fix, fmt.Errorf("the kernel's Landlock has version %d, and %d is needed", version, leastLandlock)
		}
		return fmt.Sprintf("Landlock %d", version), "", nil
	case WallSignals:
		if version >= scopedLandlock {
			return fmt.Sprintf("Landlock %d", version), "", nil
		}
		by, err = "seccomp, by the runner", notices()
		fix = "The system has to let seccomp filters be heard (in a container, the call seccomp)."
	case WallCalls, WallNoConnection:
		by, err = "seccomp", notices()
		fix = "The system has to let seccomp filters be heard (in a container, the calls seccomp and process_vm_readv)."
	case WallProcesses:
		by, err = "seccomp and the runner", notices()
		fix = "The system has to let seccomp filters be heard (in a container, the calls seccomp and process_vm_readv)."
	case WallOneDoor:
		by, err = "seccomp, by the runner", doors()
		fix = "The account has to be let look at its own child processes (kernel.yama.ptrace_scope at most 1; in a container, the call " +
			"pidfd_getfd)."
	case WallPrivileges:
		return "no_new_privs", "", nil
	case WallLimits:
		return "rlimits", "", nil
	default:
		return "", "", errors.New("there is no such wall")
	}
	if err == nil {
		fix = ""
	}
	return by, fix, err
}

const (
	// leastLandlock is the first Landlock that knows TCP ports, beside files (Linux 6.7).
	leastLandlock = 4
	// scopedLandlock is the first that keeps signals inside (Linux 6.12).
	scopedLandlock = 6
)

// notices reports why a runner cannot be asked about its program's calls; asked once.
var notices = sync.OnceValue(func() error {
	for _, what := range []uint32{unix.SECCOMP_RET_USER_NOTIF, unix.SECCOMP_RET_ERRNO} {
		if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&what))); errno != 0 {
			return fmt.Errorf("seccomp: %w", errno)
		}
	}
	return nil
})

// landlockVersion is the kernel's Landlock ABI; 0: none.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// raise puts the walls up around this process, for good: limits, privileges, files, system calls.
// The thread is locked for good, and the program is started by it. The keeper, who answers what the
// program's calls ask, runs on other threads, which no wall is around but the limits.
func raise(o *order, f *fence) (*keeper, error) {
	if o.Door.IsValid() && !o.Door.Addr().Is4() {
		return nil, errors.New("the door has no IPv4 address")
	}
	k := &keeper{
		door: o.Door, direct: o.Direct, nowhere: o.Nowhere, alone: o.Limits.Processes == 1, most: int(o.Limits.Processes), root: os.Getppid(),
	}
	if o.Apart {
		k.root = os.Getpid()
		if err := furnish(o); err != nil {
			return nil, fmt.Errorf("namespaces: %w", err)
		}
	}
	if err := k.open(o); err != nil {
		return nil, err
	}
	if o.Reads {
		k.reads = newReads(o)
	}
	for _, l := range []struct {
		resource int
		max      uint64
	}{
		{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, o.Limits.File}, {unix.RLIMIT_NOFILE, 1024}, {unix.RLIMIT_MEMLOCK, 0},
		{unix.RLIMIT_DATA, o.Limits.Memory}, {unix.RLIMIT_NPROC, 4096},
	} {
		if err := limit(l.resource, l.max, l.max); err != nil {
			return nil, err
		}
	}
	if o.Limits.CPU > 0 {
		// At the first a program is told, and most end; at the second the kernel ends it.
		if err := limit(unix.RLIMIT_CPU, o.Limits.CPU, o.Limits.CPU+1); err != nil {
			return nil, err
		}
	}
	k.self, k.scoped = unix.Gettid(), f.scoped
	if err := unprivileged(); err != nil {
		return nil, fmt.Errorf("privileges: %w", err)
	}
	if err := f.around(o); err != nil {
		return nil, fmt.Errorf("Landlock: %w", err)
	}
	var err error
	k.listener, err = filter(o.Door.IsValid(), o.Apart, !f.scoped, k.alone, o.Reads)
	return k, err
}

// limit bounds a resource of this process and what it starts, for good: each process by itself.
func limit(resource int, soft, most uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return fmt.Errorf("limit %d: %w", resource, err)
	}
	most = min(most, now.Max) // nobody raises what the system gave
	if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: min(soft, most), Max: most}); err != nil {
		return fmt.Errorf("limit %d: %w", resource, err)
	}
	return nil
}

// kept are root's privileges over files, which work with those of other accounts; Landlock bounds
// where. All others a program does without.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// unprivileged has this thread, and what it starts, gain no privileges and have none but kept.
func unprivileged() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return err
	}
	if unix.Geteuid() != 0 {
		return unix.Capset(&head, &make([]unix.CapUserData, 2)[0]) // and none is gained
	}
	// A program of root's has those of the bounding set, whatever this thread has.
	for c := uintptr(0); c < 64; c++ {
		if in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil {
			break // the kernel knows no more
		} else if in == 0 || kept&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}
	left := [2]unix.CapUserData{{Permitted: have[0].Permitted & kept, Effective: have[0].Effective & kept}}
	return unix.Capset(&head, &left[0])
}

const (
	readFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	readAll  = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeAll = readAll | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	everything = writeAll | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// systemFolders are what programs of a system need to run at all; nobody keeps their own
// files there. Without its cache a library of fonts would make one where it lies.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc/ld.so.cache", "/etc/ld.so.conf",
	"/etc/ld.so.conf.d",
	"/etc/alternatives", "/etc/fonts", "/var/cache/fontconfig", "/etc/ssl", "/etc/ca-certificates", "/etc/pki",
	"/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf",
	"/etc/os-release", "/etc/debian_version", "/etc/mime.types", "/etc/magic",
	"/etc/ImageMagick-6", "/etc/ImageMagick-7", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/version",
	"/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu", "/sys/fs/cgroup", "/dev/urandom", "/dev/random", "/dev/zero"}

type rulesetAttr struct{ fs, net, scoped uint64 }

// pathAttr is struct landlock_path_beneath_attr, which is packed.
type pathAttr [12]byte

// fence is what Landlock lets a thread use.
type fence struct {
	set    int
	scoped bool // signals and abstract sockets stay inside, too
}

// handled is all that Landlock is asked to know about files.
const handled = uint64(everything | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE)

// newFence makes one around the system's programs, which each program may use, by Landlock up to
// that version.
func newFence(landlock int) (*fence, error) {
	f := &fence{scoped: min(landlock, landlockVersion()) >= scopedLandlock}
	attr := rulesetAttr{fs: handled, net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP}
	if f.scoped {
		attr.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, errno
	}
	f.set = int(fd)
	for _, path := range systemFolders {
		if err := f.add(path, readAll); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return f, f.add("/dev/null", readFile|unix.LANDLOCK_ACCESS_FS_WRITE_FILE)
}

// add lets a file or folder be used so.
func (f *fence) add(path string, access uint64) error {
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
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(f.set), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("%s: %w", path, errno)
	}
	return nil
}

// around restricts this thread to the system's programs and the files of o.
func (f *fence) around(o *order) error {
	defer unix.Close(f.set)
	read := append(programFiles(o.Path), o.Read...)
	if o.Apart && len(o.Names) > 0 {
		read = append(read, hostsFile) // its own
	}
	for _, path := range read {
		if err := f.add(path, readAll); err != nil {
			return err
		}
	}
	for _, path := range o.Write {
		if err := f.add(path, writeAll|unix.LANDLOCK_ACCESS_FS_REFER|unix.LANDLOCK_ACCESS_FS_TRUNCATE); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(f.set), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// programFiles are what a program outside the system's folders is: the file itself, and the one
// that a link leads to. The caller names all else that it reads.
func programFiles(path string) []string {
	list := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		list = append(list, real)
	}
	return list
}

// inPart are attempts by some arguments alone.
var inPart = append([]int32{unix.SYS_CLONE, unix.SYS_IOCTL, unix.SYS_FCNTL, unix.SYS_SETPRIORITY}, ownOnly...)

// Offsets in struct seccomp_data (linux/seccomp.h).
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// refusedCalls are refused and not told: a file's handle, which tells one file from another, opens
// nothing. All others wait for the keeper (attempts, tracing, changing).
var refusedCalls = []uint32{unix.SYS_NAME_TO_HANDLE_AT}

// ownOnly are what a program may do to itself (its first argument is 0) and to no other.
var ownOnly = []int32{
	unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
}

// filter refuses refusedCalls, and every socket: a program has no way to the network, nor to
// services of the machine. A pair of connected sockets, which programs use inside, is none.
//
// Changes of modes, times and owners, and of files by name, and what may be an attempt, wait for
// the keeper, who listens on the descriptor. Each signal does, which with signals it sends itself,
// while else Landlock refuses some; with alone each new process and program, with reads
// each look at a file by name, and without a door each socket. With a door a program opens TCP
// sockets of IPv4, and the keeper refuses others; each connect waits, too, and the keeper makes
// the connection in its place, to the door alone. Landlock refuses every one that the program
// would make itself.
func filter(door, apart, signals, alone, reads bool) (listener int, err error) {
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
	asked := slices.Collect(maps.Keys(chmods))
	asked = append(asked, unix.SYS_FCHMOD, unix.SYS_UTIMENSAT)
	// Landlock knows no modes, owners and attributes: nobody's files are changed by name.
	asked = slices.AppendSeq(slices.AppendSeq(asked, maps.Keys(owning)), maps.Keys(olderOwning))
	// Others are refused as well, and told where they are attempts.
	asked = slices.AppendSeq(slices.AppendSeq(asked, maps.Keys(tracing)), maps.Keys(changing))
	for number := range attempts {
		if !slices.Contains(inPart, number) {
			asked = append(asked, number)
		}
	}
	fork, hear := allow, end(unix.SECCOMP_RET_USER_NOTIF)
	if alone {
		asked, fork = append(append(asked, unix.SYS_EXECVE, unix.SYS_EXECVEAT), forks...), hear
	}
	if door {
		asked = slices.AppendSeq(append(asked, unix.SYS_CONNECT), maps.Keys(doorAttempts))
	}
	if signals {
		asked = append(asked, unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL)
		// The keeper passes on a signal's number alone; C libraries and Go use kill then.
		for _, number := range []uint32{unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_SEND_SIGNAL} {
			program = append(program, jump(unix.BPF_JEQ, number, 0, 1), end(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
		}
	} else {
		// Landlock refuses them. Signal 0 only looks, and SIGURG, which runtimes send themselves all
		// the time, ends nobody.
		for number, at := range signalling {
			program = append(program, jump(unix.BPF_JEQ, uint32(number), 0, 5), load(offArgs+8*at), jump(unix.BPF_JEQ, 0, 2, 0),
				jump(unix.BPF_JEQ, uint32(unix.SIGURG), 1, 0), hear, allow)
		}
	}
	for _, number := range asked {
		program = append(program, jump(unix.BPF_JEQ, uint32(number), 0, 1), end(unix.SECCOMP_RET_USER_NOTIF))
	}
	if reads {
		for _, calls := range []map[int32]name{reading, olderReading} {
			for number := range calls {
				program = append(program, jump(unix.BPF_JEQ, uint32(number), 0, 1), end(unix.SECCOMP_RET_USER_NOTIF))
			}
		}
	}
	// Writing is looked at, and other reading is not.
	for _, calls := range []map[int32]change{writing, olderWriting} {
		for number, c := range calls {
			if c.flags == 0 || c.far {
				program = append(program, jump(unix.BPF_JEQ, uint32(number), 0, 1), end(unix.SECCOMP_RET_USER_NOTIF))
				continue
			}
			program = append(program, jump(unix.BPF_JEQ, uint32(number), 0, 4),
				load(offArgs+8*uint32(c.flags)), jump(unix.BPF_JSET, writes, 0, 1), end(unix.SECCOMP_RET_USER_NOTIF), allow)
		}
	}
	// A descriptor's signals go to somebody that the program may signal.
	program = append(program,
		jump(unix.BPF_JEQ, unix.SYS_FCNTL, 0, 5), load(offArgs+8), jump(unix.BPF_JEQ, unix.F_SETOWN, 1, 0),
		jump(unix.BPF_JEQ, unix.F_SETOWN_EX, 0, 1), hear, allow)
	if door {
		open := allow
		if apart {
			open = hear
		}
		program = append(program,
			jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 12),
			load(offArgs), jump(unix.BPF_JEQ, unix.AF_INET, 1, 0), hear,
			load(offArgs+8), unix.SockFilter{
				Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf,
			}, jump(unix.BPF_JEQ, unix.SOCK_STREAM, 1, 0), hear,
			load(offArgs+16), jump(unix.BPF_JEQ, 0, 2, 0), jump(unix.BPF_JEQ, unix.IPPROTO_TCP, 1, 0), hear, open)
		// Sending may connect, too (TCP Fast Open), and nobody is asked then.
		for number, flags := range map[uint32]uint32{unix.SYS_SENDTO: 3, unix.SYS_SENDMSG: 2, unix.SYS_SENDMMSG: 3} {
			program = append(program, jump(unix.BPF_JEQ, number, 0, 4), load(offArgs+8*flags), jump(unix.BPF_JSET, unix.MSG_FASTOPEN, 0, 1), hear,
				allow)
		}
	} else {
		// The keeper refuses sockets, so that somebody can be told. C libraries ask services of this
		// machine by those of Unix and netlink when a program wants no network at all.
		program = append(program,
			jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 5), load(offArgs), jump(unix.BPF_JEQ, unix.AF_UNIX, 2, 0),
			jump(unix.BPF_JEQ, unix.AF_NETLINK, 1, 0),
			end(unix.SECCOMP_RET_USER_NOTIF), noSocket,
			jump(unix.BPF_JEQ, unix.SYS_CONNECT, 0, 1), refuse, jump(unix.BPF_JEQ, unix.SYS_BIND, 0, 1), refuse,
			jump(unix.BPF_JEQ, unix.SYS_LISTEN, 0, 1), refuse)
	}
	for _, number := range refusedCalls {
		program = append(program, jump(unix.BPF_JEQ, number, 0, 1), refuse)
	}
	for _, number := range ownOnly {
		program = append(program, jump(unix.BPF_JEQ, uint32(number), 0, 4), load(offArgs), jump(unix.BPF_JEQ, 0, 1, 0), hear,
			end(unix.SECCOMP_RET_ALLOW))
	}
	// Another's place in the queue: setpriority(which, who, …).
	program = append(program, jump(unix.BPF_JEQ, unix.SYS_SETPRIORITY, 0, 4), load(offArgs+8), jump(unix.BPF_JEQ, 0, 1, 0), hear,
		end(unix.SECCOMP_RET_ALLOW))
	// A pair of datagram sockets sends to any socket that has a path. Streams and sequenced packets,
	// by which browsers speak to their own processes, go to their pair whatever address is given.
	program = append(program,
		jump(unix.BPF_JEQ, unix.SYS_SOCKETPAIR, 0, 9),
		load(offArgs), jump(unix.BPF_JEQ, unix.AF_UNIX, 1, 0), refuse,
		load(offArgs+8), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf},
		jump(unix.BPF_JEQ, unix.SOCK_STREAM, 2, 0), jump(unix.BPF_JEQ, unix.SOCK_SEQPACKET, 1, 0), refuse, end(unix.SECCOMP_RET_ALLOW))
	// A thread is no process. New namespaces by clone would hold new rights.
	program = append(program, jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 6), load(offArgs), jump(unix.BPF_JSET, namespaces, 0, 1), hear,
		jump(unix.BPF_JSET, unix.CLONE_THREAD, 1, 0), fork, allow,
		jump(unix.BPF_JEQ, unix.SYS_IOCTL, 0, 7), load(offArgs+8),
		// Typing into the terminal that somebody started us from, and a descriptor's signals.
		jump(unix.BPF_JEQ, unix.TIOCSTI, 3, 0), jump(unix.BPF_JEQ, unix.TIOCLINUX, 2, 0), jump(unix.BPF_JEQ, fioSetOwn, 1, 0),
		jump(unix.BPF_JEQ, sioSetOwn, 0, 1), hear, allow,
		allow)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// A program that was heard is interrupted by its end alone: no connection is made twice.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return -1, fmt.Errorf("filter of system calls: %w", errno)
	}
	return int(fd), nil
}

const (
	// namespaces are the flags of clone that make one.
	namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
		unix.CLONE_NEWCGROUP
	fioSetOwn = 0x8901 // FIOSETOWN
	sioSetOwn = 0x8902 // SIOCSPGRP
)
