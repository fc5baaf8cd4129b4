//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A refused call is told by its aim, so that no list of programs is needed: one that aims at
// something that is there and is not the program's own is an attempt; so is one for rights
// that the program does not have. Another way of the kernel to what the program has anyway is told
// as such. A look, a call about the program itself, and one for what is not there are not told.

// attempt says what one refused call aims at: a kind of frameTried with a few words; "": nothing
// that is told.
type attempt func(k *keeper, n *notification) (what byte, words string)

// attempts are calls that are always refused, and what they aim at.
var attempts = map[int32]attempt{
	unix.SYS_UNSHARE: func(_ *keeper, n *notification) (byte, string) {
		return trySystem, where(n.args[0]&(namespaces|unix.CLONE_NEWTIME) != 0, "unshare") // its own files and folders are its own
	},
	unix.SYS_CLONE: func(*keeper, *notification) (byte, string) { return trySystem, "clone of a namespace" },
	unix.SYS_OPEN_TREE: func(_ *keeper, n *notification) (byte, string) {
		return trySystem, where(n.args[2]&unix.OPEN_TREE_CLONE != 0, "open_tree")
	},
	unix.SYS_ADJTIMEX: func(_ *keeper, n *notification) (byte, string) { return trySystem, where(setsClock(n, 0), "adjtimex") },
	unix.SYS_CLOCK_ADJTIME: func(_ *keeper, n *notification) (byte, string) {
		return trySystem, where(setsClock(n, 1), "clock_adjtime")
	},
	unix.SYS_QUOTACTL: func(_ *keeper, n *notification) (byte, string) {
		return trySystem, where(setsQuota(uint32(n.args[0])>>8), "quotactl")
	},
	unix.SYS_SYSLOG: func(_ *keeper, n *notification) (byte, string) {
		kind := int32(n.args[0])
		return trySystem, where(kind == 2 || kind >= 4 && kind <= 8, "syslog") // takes from it, clears it, sets the console's level
	},
	unix.SYS_IOCTL: func(k *keeper, n *notification) (byte, string) {
		switch uint32(n.args[1]) {
		case fioSetOwn, sioSetOwn:
			to, ok := number(n, n.args[2])
			return tryControl, where(ok && k.foreign(to), "a descriptor's signals")
		}
		link, _ := os.Readlink(opened(n, n.args[0]))
		return trySystem, where(strings.HasPrefix(link, "/dev/"), "typing into a terminal")
	},
	unix.SYS_FCNTL: func(k *keeper, n *notification) (byte, string) {
		to, ok := int(int32(n.args[2])), true
		if n.args[1] == unix.F_SETOWN_EX {
			var kind int
			kind, ok = number(n, n.args[2])
			if to, _ = number(n, n.args[2]+4); kind == ownerGroup {
				to = -to
			}
		}
		return tryControl, where(ok && k.foreign(to), "a descriptor's signals")
	},

	unix.SYS_ADD_KEY:     func(*keeper, *notification) (byte, string) { return tryKeyring, "add_key" },
	unix.SYS_REQUEST_KEY: func(*keeper, *notification) (byte, string) { return tryKeyring, "request_key" },
	unix.SYS_KEYCTL:      func(*keeper, *notification) (byte, string) { return tryKeyring, "keyctl" },

	// Rings and the like are the program's own. Some libraries have them where there are any. A ring
	// that is used has to be there, and the program got none from the kernel.
	unix.SYS_IO_URING_SETUP: func(*keeper, *notification) (byte, string) { return tryInterface, "io_uring_setup" },
	unix.SYS_USERFAULTFD:    func(*keeper, *notification) (byte, string) { return tryInterface, "userfaultfd" },
	unix.SYS_MEMFD_SECRET:   func(*keeper, *notification) (byte, string) { return tryInterface, "memfd_secret" },
	unix.SYS_IO_URING_ENTER: func(_ *keeper, n *notification) (byte, string) { return trySystem, where(isOpen(n), "io_uring_enter") },
	unix.SYS_IO_URING_REGISTER: func(_ *keeper, n *notification) (byte, string) {
		return trySystem, where(isOpen(n), "io_uring_register")
	},

	unix.SYS_KCMP: func(k *keeper, n *notification) (byte, string) {
		return tryTrace, where(k.foreign(int(int32(n.args[0]))) || k.foreign(int(int32(n.args[1]))), "kcmp")
	},
	unix.SYS_PIDFD_GETFD: func(k *keeper, n *notification) (byte, string) {
		pid, ok := processOf(n, n.args[0])
		return tryTrace, where(ok && k.foreign(pid), "pidfd_getfd")
	},

	unix.SYS_PRLIMIT64:          bounds("prlimit64"),
	unix.SYS_SCHED_SETAFFINITY:  bounds("sched_setaffinity"),
	unix.SYS_SCHED_SETSCHEDULER: bounds("sched_setscheduler"),
	unix.SYS_SCHED_SETPARAM:     bounds("sched_setparam"),
	unix.SYS_SCHED_SETATTR:      bounds("sched_setattr"),
	unix.SYS_SETPRIORITY: func(k *keeper, n *notification) (byte, string) {
		return tryControl, where(k.places(int(n.args[0]), int(int32(n.args[1]))), "setpriority")
	},
	unix.SYS_IOPRIO_SET: func(k *keeper, n *notification) (byte, string) {
		return tryControl, where(k.places(int(n.args[0])-1, int(int32(n.args[1]))), "ioprio_set")
	},

	unix.SYS_SHMGET: segments("shm", 0, "shmget"), unix.SYS_SHMAT: segments("shm", 1, "shmat"),
	unix.SYS_SHMCTL: changes("shm", 1, "shmctl"),
	unix.SYS_MSGGET: segments("msg", 0, "msgget"), unix.SYS_MSGRCV: segments("msg", 1, "msgrcv"),
	unix.SYS_MSGSND: segments("msg", 1, "msgsnd"),
	unix.SYS_MSGCTL: changes("msg", 1, "msgctl"),
	unix.SYS_SEMGET: segments("sem", 0, "semget"), unix.SYS_SEMOP: segments("sem", 1, "semop"),
	unix.SYS_SEMTIMEDOP: segments("sem", 1, "semtimedop"), unix.SYS_SEMCTL: changes("sem", 2, "semctl"),
	unix.SYS_MQ_OPEN:   queues("mq_open"),
	unix.SYS_MQ_UNLINK: queues("mq_unlink"),
}

// doorAttempts are those of a program with a door, which has sockets.
var doorAttempts = map[int32]attempt{
	unix.SYS_BIND: func(k *keeper, n *notification) (byte, string) {
		at, ok := port(n)
		return tryListen, where(ok && k.hasSocket(n), "bind "+at.String())
	},
	unix.SYS_LISTEN: func(k *keeper, n *notification) (byte, string) { return tryListen, where(k.hasSocket(n), "listen") },
}

// signalling are the calls that send signals, with the place of the signal's number.
var signalling = map[int32]uint32{
	unix.SYS_KILL: 1, unix.SYS_TKILL: 1, unix.SYS_TGKILL: 2, unix.SYS_RT_SIGQUEUEINFO: 1, unix.SYS_RT_TGSIGQUEUEINFO: 2,
	unix.SYS_PIDFD_SEND_SIGNAL: 1,
}

const (
	ownerGroup = 2        // F_OWNER_PGRP
	setQuota   = 0x800000 // Q_SYNC, after which the system's commands are numbered
	setXQuota  = 'X' << 8 // XQM_CMD(0), after which those of XFS are
)

// where returns words where an attempt is one.
func where(is bool, words string) string {
	if !is {
		return ""
	}
	return words
}

// tells tells of a call that is refused, if it is an attempt.
func (k *keeper) tells(n *notification, one attempt, to teller) {
	if what, words := one(k, n); words != "" && k.asks(n) == nil {
		_ = to.tried(what, words)
	}
}

// foreign reports whether a process or thread is there that the program did not start; of a number
// below 0, of a group.
func (k *keeper) foreign(pid int) bool {
	switch {
	case pid == 0:
		return false
	case pid > 0:
		_, there := look(pid)
		return there && !k.ours(pid)
	}
	if _, there := look(-pid); there {
		return !k.ours(-pid)
	}
	entries, _ := os.ReadDir("/proc") // whoever began the group has ended
	for _, e := range entries {
		if other, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := look(other); ok && p.group == -pid && !k.ours(other) {
				return true
			}
		}
	}
	return false
}

// signals tells of a signal to what the program did not start. A signal to everything that a
// program may reach is one to everything of its account, outside.
func (k *keeper) signals(n *notification, to teller) {
	number := unix.Signal(int32(n.args[signalling[n.nr]]))
	pid, ok := int(int32(n.args[0])), true
	if n.nr == unix.SYS_PIDFD_SEND_SIGNAL {
		pid, ok = processOf(n, n.args[0])
	}
	all := n.nr == unix.SYS_KILL && pid == -1
	if number == 0 || !ok || pid == int(n.pid) || !all && !k.foreign(pid) || k.asks(n) != nil {
		return
	}
	name := unix.SignalName(number)
	if name == "" {
		name = "signal " + strconv.Itoa(int(number))
	}
	_ = to.tried(tryControl, "kill "+name)
}

// bounds are attempts at a process that the first argument says.
func bounds(words string) attempt {
	return func(k *keeper, n *notification) (byte, string) {
		return tryControl, where(k.foreign(int(int32(n.args[0]))), words)
	}
}

// places reports whether a place in a queue is of others: of a process (0), a group (1), or all
// that an account has (2).
func (k *keeper) places(which, who int) bool {
	switch which {
	case 0:
		return k.foreign(who)
	case 1:
		return k.foreign(-who)
	}
	return which == 2
}

// segments are attempts at what others share by System V: by its key, the first argument of a call
// that has one (column 0 of the kernel's list), or by its number (column 1).
func segments(kind string, column int, words string) attempt {
	return func(_ *keeper, n *notification) (byte, string) {
		return tryShared, where(isShared(kind, column, int(int32(n.args[0]))), words)
	}
}

// changes are attempts to change it, by a command at that place; others only look.
func changes(kind string, at int, words string) attempt {
	return func(_ *keeper, n *notification) (byte, string) {
		switch n.args[at] &^ 0x100 { // IPC_64
		case 0, 1, 11, 12, 16, 17: // IPC_RMID, IPC_SET, SHM_LOCK, SHM_UNLOCK, SETVAL, SETALL
			return tryShared, where(isShared(kind, 1, int(int32(n.args[0]))), words)
		}
		return tryShared, ""
	}
}

// isShared reports whether something of System V is there. Key 0 is a new one of the program's own.
func isShared(kind string, column, value int) bool {
	text, err := os.ReadFile("/proc/sysvipc/" + kind)
	if err != nil || column == 0 && value == 0 {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[column] == strconv.Itoa(value) {
			return true
		}
	}
	return false
}

// queues are attempts at a queue of messages that is there, by its name.
func queues(words string) attempt {
	return func(_ *keeper, n *notification) (byte, string) {
		name, err := textAt(int(n.pid), uintptr(n.args[0]))
		if err != nil {
			return tryShared, ""
		}
		return tryShared, where(isQueue(name), words)
	}
}

// isQueue reports whether a queue of that name is there.
func isQueue(name string) bool {
	at, err := unix.BytePtrFromString(name)
	if err != nil {
		return false
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(at)), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0, 0, 0, 0)
	if errno == 0 {
		_ = unix.Close(int(fd))
	}
	return errno == 0 || errno == unix.EACCES
}

// setsClock reports whether a struct timex, which an argument points to, says that something is to
// be set: its first field.
func setsClock(n *notification, at int) bool {
	modes, ok := number(n, n.args[at])
	return ok && modes != 0
}

// setsQuota reports whether a command of quotas changes some.
func setsQuota(command uint32) bool {
	switch command {
	case setQuota + 2, setQuota + 3, setQuota + 6, setQuota + 8, setXQuota + 1, setXQuota + 2, setXQuota + 4, setXQuota + 6:
		return true
	}
	return false
}

// opened is where a descriptor of the program is found.
func opened(n *notification, fd uint64) string {
	return "/proc/" + strconv.Itoa(int(n.pid)) + "/fd/" + strconv.Itoa(int(int32(fd)))
}

// isOpen reports whether the first argument is an open descriptor.
func isOpen(n *notification) bool {
	_, err := os.Readlink(opened(n, n.args[0]))
	return err == nil
}

// processOf returns the process of a descriptor of one; false: it is none, or the process ended.
func processOf(n *notification, fd uint64) (int, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(int(n.pid)) + "/fdinfo/" + strconv.Itoa(int(int32(fd))))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(rest))
			return pid, err == nil && pid > 0
		}
	}
	return 0, false
}

// memory fills data from the program's memory.
func memory(n *notification, at uint64, data []byte) bool {
	got, err := unix.ProcessVMReadv(int(n.pid), []unix.Iovec{{Base: &data[0], Len: uint64(len(data))}},
		[]unix.RemoteIovec{{Base: uintptr(at), Len: len(data)}}, 0)
	return err == nil && got == len(data)
}

// number reads a C int.
func number(n *notification, at uint64) (int, bool) {
	var data [4]byte
	ok := memory(n, at, data[:])
	return int(int32(binary.NativeEndian.Uint32(data[:]))), ok
}

// port reads the address that a socket is to have. False: it has no port of its own, as those have
// none that only connect from an address.
func port(n *notification) (netip.AddrPort, bool) {
	at, err := wantedBy(int(n.pid), uintptr(n.args[1]), uint32(n.args[2]))
	return at, err == nil && at.Port() != 0
}

// hasSocket reports whether the first argument is a socket of IPv4.
func (k *keeper) hasSocket(n *notification) bool {
	process, err := openThread(int(n.pid))
	if err != nil {
		return false
	}
	defer unix.Close(process)
	socket, err := unix.PidfdGetfd(process, int(int32(n.args[0])), 0)
	if err != nil {
		return false
	}
	defer unix.Close(socket)
	domain, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && domain == unix.AF_INET
}

// sends tells of a connection that sending would make (TCP Fast Open), as of any other, and refuses
// it: to the door, programs then connect.
func (k *keeper) sends(n *notification, announce func(from uint16, to netip.AddrPort) error) error {
	at, length := n.args[4], n.args[5]
	if n.nr != unix.SYS_SENDTO { // struct msghdr begins with a pointer to the name and its length
		var head [12]byte
		if !memory(n, n.args[1], head[:]) {
			return unix.EPERM
		}
		at, length = binary.NativeEndian.Uint64(head[:]), uint64(binary.NativeEndian.Uint32(head[8:]))
	}
	to, err := wantedBy(int(n.pid), uintptr(at), uint32(length))
	if err == nil && to.Port() != 0 && to != k.door && k.asks(n) == nil {
		_ = announce(0, to)
	}
	return unix.EPERM
}
