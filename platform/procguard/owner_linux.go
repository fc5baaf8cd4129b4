package procguard

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

var errNoSocket = errors.New("no such connection")

// owns looks the connection up in the kernel's table. A child alone under its
// account owns what the account does; otherwise one of the child's processes has
// to hold the socket.
func (p *process) owns(from, to netip.AddrPort) (bool, error) {
	uid, inode, err := findSocket(from, to)
	if errors.Is(err, errNoSocket) {
		return false, nil // it is gone already
	}
	if err != nil {
		return false, err
	}
	if p.user != nil && uid != p.user.UID || p.user == nil && uid != uint32(os.Geteuid()) {
		return false, nil
	}
	if p.alone {
		return true, nil
	}
	link := "socket:[" + inode + "]"
	last := int(p.owner.Load())
	if last != 0 && holds(last, link) {
		return true, nil
	}
	for _, pid := range descendants(p.cmd.Process.Pid) {
		if pid != last && holds(pid, link) {
			p.owner.Store(int64(pid))
			return true, nil
		}
	}
	return false, nil
}

// holds reports whether the process has that socket open.
func holds(pid int, link string) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		if to, err := os.Readlink(dir + "/" + name); err == nil && to == link {
			return true
		}
	}
	return false
}

// findSocket returns the account and the inode of the TCP socket that is connected
// from there to there. It asks the kernel for the one socket: reading
// /proc/net/tcp takes the kernel milliseconds, whatever stands in it. It is read
// when the kernel knows no such socket, since one without that question says the
// same.
func findSocket(from, to netip.AddrPort) (uid uint32, inode string, err error) {
	if !from.Addr().Unmap().Is4() || !to.Addr().Unmap().Is4() {
		return 0, "", errors.New("only IPv4 is looked up")
	}
	if uid, inode, err = askKernel(from, to); err == nil {
		return uid, inode, err
	}
	return searchTable(from, to)
}

// askKernel sends a sock_diag(7) request and reads its answer:
//
//	nlmsghdr   length 4, type 2, flags 2, sequence 4, port 4
//	request    family 1, protocol 1, extensions 1, pad 1, states 4, then the id:
//	           source port 2, destination port 2, source 16, destination 16,
//	           interface 4, cookie 8 (ports and addresses in network order)
//	answer     family 1, state 1, timer 1, retransmits 1, id 48,
//	           expires 4, receive queue 4, write queue 4, uid 4, inode 4
func askKernel(from, to netip.AddrPort) (uid uint32, inode string, err error) {
	const (
		header, request = 16, 56
		byFamily        = 20
	)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, "", err
	}
	defer unix.Close(fd)
	b := make([]byte, header+request)
	native := binary.NativeEndian
	native.PutUint32(b, header+request)
	native.PutUint16(b[4:], byFamily)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	q := b[header:]
	q[0], q[1] = unix.AF_INET, unix.IPPROTO_TCP
	native.PutUint32(q[4:], ^uint32(0))
	binary.BigEndian.PutUint16(q[8:], from.Port())
	binary.BigEndian.PutUint16(q[10:], to.Port())
	src, dst := from.Addr().Unmap().As4(), to.Addr().Unmap().As4()
	copy(q[12:], src[:])
	copy(q[28:], dst[:])
	native.PutUint64(q[48:], ^uint64(0)) // no cookie
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, "", err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, "", err
	}
	answer = answer[:n]
	switch {
	case n >= header+4 && native.Uint16(answer[4:]) == unix.NLMSG_ERROR:
		if errno := unix.Errno(-int32(native.Uint32(answer[header:]))); errno != unix.ENOENT {
			return 0, "", errno
		}
		return 0, "", errNoSocket
	case n < header+72 || native.Uint16(answer[4:]) != byFamily:
		return 0, "", errors.New("sock_diag: an answer to another question")
	}
	a := answer[header:]
	return native.Uint32(a[64:]), strconv.FormatUint(uint64(native.Uint32(a[68:])), 10), nil
}

// searchTable reads /proc/net/tcp: "sl local remote state queues timer retransmits
// uid timeout inode …", addresses as little-endian hex.
func searchTable(from, to netip.AddrPort) (uid uint32, inode string, err error) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, "", err
	}
	local, remote := tableAddr(from), tableAddr(to)
	for line := range bytes.Lines(table) {
		if !bytes.Contains(line, local) {
			continue
		}
		f := bytes.Fields(line)
		if len(f) < 10 || !bytes.Equal(f[1], local) || !bytes.Equal(f[2], remote) {
			continue
		}
		id, err := strconv.ParseUint(string(f[7]), 10, 32)
		if err != nil {
			return 0, "", err
		}
		return uint32(id), string(f[9]), nil
	}
	return 0, "", errNoSocket
}

func tableAddr(a netip.AddrPort) []byte {
	b := a.Addr().Unmap().As4()
	b[0], b[1], b[2], b[3] = b[3], b[2], b[1], b[0]
	return []byte(fmt.Sprintf("%s:%04X", bytes.ToUpper([]byte(hex.EncodeToString(b[:]))), a.Port()))
}
