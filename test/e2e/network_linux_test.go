package e2e

import (
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// public is a range of the internet, of which a network of its own has every address.
const public = "93.184.216."

// inANetwork reports whether this process has a network of its own, in which addresses of public
// are those of the internet and names stand for them. If not it runs the test again in a process
// that has one, and the caller is to return.
func inANetwork(t *testing.T, names map[string]string) bool {
	t.Helper()
	const marked = "HANDRAIL_TEST_NETWORK"
	if os.Getenv(marked) == t.Name() {
		madeNetwork(t, names)
		return true
	}
	self, err := os.Executable()
	must(t, err)
	again := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=8m")
	again.Env = append(os.Environ(), marked+"="+t.Name())
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := again.CombinedOutput()
	if os.IsPermission(err) {
		t.Skip("this system makes no networks: ", err)
	}
	t.Logf("%s", out)
	switch {
	case err != nil:
		t.Error(err)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skip("as it says")
	}
	return false
}

// madeNetwork makes the network and the names.
func madeNetwork(t *testing.T, names map[string]string) {
	t.Helper()
	hosts := "127.0.0.1 localhost\n"
	for name, addr := range names {
		hosts += addr + " " + name + "\n"
	}
	file := filepath.Join(t.TempDir(), "hosts")
	must(t, os.WriteFile(file, []byte(hosts), 0o644))
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount(file, "/etc/hosts", "", unix.MS_BIND, ""))

	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	must(t, err)
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	must(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))

	// Every address of the range is local here, and no interface has it: it is nobody's neighbour.
	loopback, err := net.InterfaceByName("lo")
	must(t, err)
	nl, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	must(t, err)
	defer unix.Close(nl)
	dst := net.ParseIP(public + "0").To4()
	body := []byte{unix.AF_INET, 24, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	attribute := func(kind uint16, value []byte) {
		body = binary.NativeEndian.AppendUint16(body, uint16(4+len(value)))
		body = binary.NativeEndian.AppendUint16(body, kind)
		body = append(body, value...)
	}
	attribute(unix.RTA_DST, dst)
	attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(loopback.Index)))
	var message []byte
	message = binary.NativeEndian.AppendUint32(message, uint32(unix.NLMSG_HDRLEN+len(body)))
	message = binary.NativeEndian.AppendUint16(message, unix.RTM_NEWROUTE)
	message = binary.NativeEndian.AppendUint16(message, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
	message = binary.NativeEndian.AppendUint32(message, 1)
	message = binary.NativeEndian.AppendUint32(message, 0)
	must(t, unix.Sendto(nl, append(message, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	said := make([]byte, 4096)
	n, _, err := unix.Recvfrom(nl, said, 0)
	must(t, err)
	if n < unix.NLMSG_HDRLEN+4 || int32(binary.NativeEndian.Uint32(said[unix.NLMSG_HDRLEN:])) != 0 {
		t.Fatalf("no route: % x", said[:n])
	}
}
