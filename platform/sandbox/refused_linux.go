//go:build linux && (amd64 || arm64)

package sandbox

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// A filter that refuses a call by its number tells nobody. So calls that are an attempt at what
// was not granted wait for the keeper, who tells of them and refuses them at once. Libraries make
// some by themselves on the way to something else, which are none: they look for services of the
// machine and for IPv6, and resolve names by datagrams.

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
