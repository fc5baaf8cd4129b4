//go:build linux && (amd64 || arm64)

package sandbox

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// A filter that refuses a call by its number tells nobody. So calls that are an attempt at what
// was not granted wait for the keeper, who tells of them and refuses them at once. Libraries make
// some by themselves on the way to something else, which are none: they look for services of the
// machine and for IPv6, and resolve names by datagrams. More are in attempts.

// owned is where a call says whose owner, attributes or times it would change.
type owned struct {
	name
	open bool // it is the file that the first argument has open
}

// owning are the calls that change owners and attributes, which no program behind walls does, on
// every system.
var owning = map[int32]owned{
	unix.SYS_FCHOWN: {open: true}, unix.SYS_FCHOWNAT: {name: name{0, 1, before}},
	unix.SYS_SETXATTR: {name: name{-1, 0, before}}, unix.SYS_LSETXATTR: {name: name{-1, 0, before}}, unix.SYS_FSETXATTR: {open: true},
	unix.SYS_REMOVEXATTR: {name: name{-1, 0, before}}, unix.SYS_LREMOVEXATTR: {name: name{-1, 0, before}},
	unix.SYS_FREMOVEXATTR: {open: true},
}

// outside tells of a change that was refused, if it is of somebody's file outside the program's
// folders. Inside, copying programs try to keep what a file had, and go on without it.
func (k *keeper) outside(n *notification, at owned, to teller, err error) error {
	if err == nil {
		return nil
	}
	path := "/proc/" + strconv.Itoa(int(n.pid)) + "/fd/" + strconv.Itoa(int(int32(n.args[0])))
	if !at.open {
		named, e := k.named(n, at.name)
		if e != nil {
			return err
		}
		path = named
	}
	if real, ok := leadsTo(path, true, before); ok && k.mayWrite(real) == nil && k.asks(n) == nil {
		_ = to.wrote(real)
	}
	return err
}

// spawning tells of another process or program that was refused.
func (k *keeper) spawning(n *notification, to teller, err error) error {
	if err != nil && k.asks(n) == nil {
		_ = to.spawns()
	}
	return err
}

// tracing are the calls that look into a process, with the place of its number among the arguments.
var tracing = map[int32]struct {
	at    int
	words string
}{
	unix.SYS_PTRACE: {1, "ptrace"}, unix.SYS_PROCESS_VM_READV: {0, "process_vm_readv"}, unix.SYS_PROCESS_VM_WRITEV: {0, "process_vm_writev"},
}

// changing are the calls that change the system or open files past their names, which no program
// and no library tries on its way to something else.
var changing = map[int32]string{
	unix.SYS_MOUNT: "mount", unix.SYS_UMOUNT2: "umount2", unix.SYS_MOVE_MOUNT: "move_mount", unix.SYS_FSOPEN: "fsopen",
	unix.SYS_FSMOUNT: "fsmount", unix.SYS_MOUNT_SETATTR: "mount_setattr", unix.SYS_PIVOT_ROOT: "pivot_root", unix.SYS_CHROOT: "chroot",
	unix.SYS_SETNS: "setns", unix.SYS_OPEN_BY_HANDLE_AT: "open_by_handle_at", unix.SYS_INIT_MODULE: "init_module",
	unix.SYS_FINIT_MODULE: "finit_module", unix.SYS_DELETE_MODULE: "delete_module", unix.SYS_KEXEC_LOAD: "kexec_load",
	unix.SYS_REBOOT: "reboot", unix.SYS_SWAPON: "swapon", unix.SYS_SWAPOFF: "swapoff", unix.SYS_ACCT: "acct",
	unix.SYS_SETTIMEOFDAY: "settimeofday", unix.SYS_CLOCK_SETTIME: "clock_settime", unix.SYS_SETHOSTNAME: "sethostname",
	unix.SYS_FSCONFIG: "fsconfig", unix.SYS_VHANGUP: "vhangup", unix.SYS_SETDOMAINNAME: "setdomainname", unix.SYS_BPF: "bpf",
	unix.SYS_PERF_EVENT_OPEN: "perf_event_open",
}

// traces tells of a look into a process that is there and that the program did not start. Into its
// own ones debuggers and tools that look for leaks want to look, and go on without.
func (k *keeper) traces(n *notification, to teller) {
	call := tracing[n.nr]
	pid := int(int32(n.args[call.at]))
	if n.nr == unix.SYS_PTRACE && n.args[0] == unix.PTRACE_TRACEME {
		return
	}
	if _, there := look(pid); there && !k.ours(pid) && k.asks(n) == nil {
		_ = to.tried(tryTrace, call.words)
	}
}

// isLookup reports whether a program wants a socket by which names are looked up. Where no network
// was granted that is an attempt, or a look at the machine's own interfaces.
func isLookup(n *notification) bool {
	return n.args[0] == unix.AF_INET && n.args[1]&0xf == unix.SOCK_DGRAM
}

// oddSocket says which socket a program with a door wants that only somebody wants who goes round
// it; "" for the door's own, and for those that libraries open by themselves.
func oddSocket(n *notification) string {
	family, kind, protocol := uint16(n.args[0]), int(n.args[1])&0xf, int(int32(n.args[2]))
	switch family {
	case unix.AF_UNIX, unix.AF_NETLINK, unix.AF_ALG:
		return ""
	case unix.AF_INET, unix.AF_INET6:
	default:
		return socketName(family)
	}
	version := "IPv4"
	if family == unix.AF_INET6 {
		version = "IPv6"
	}
	switch {
	case kind == unix.SOCK_RAW:
		return "a raw " + version + " socket"
	case kind == unix.SOCK_STREAM && (protocol == 0 || protocol == unix.IPPROTO_TCP):
		return ""
	case kind == unix.SOCK_DGRAM && (protocol == 0 || protocol == unix.IPPROTO_UDP):
		return ""
	}
	return "an " + version + " socket of protocol " + strconv.Itoa(protocol)
}
