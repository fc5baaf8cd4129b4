package chaos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// network has each gateway in a network namespace of its own, all on one bridge: two gateways are
// parted there without either being told. Where the test may make none, gateways share loopback and
// are not parted.
type network struct {
	t      *testing.T
	apart  bool
	name   string
	subnet string

	mu    sync.Mutex
	split []int // of each gateway: how many faults part it
}

func newNetwork(t *testing.T, gateways int) *network {
	n := &network{t: t, name: fmt.Sprintf("hc%d", os.Getpid()%1_000_000), split: make([]int, gateways)}
	if os.Getuid() != 0 || ip("netns", "add", n.space(0)) != nil {
		return n
	}
	t.Cleanup(func() { _ = ip("netns", "del", n.space(0)) })
	n.subnet = freeSubnet(t)
	n.does("link", "add", n.name, "type", "bridge")
	t.Cleanup(func() { _ = ip("link", "del", n.name) })
	n.does("addr", "add", n.subnet+".254/24", "dev", n.name)
	n.does("link", "set", n.name, "up")
	for i := range gateways {
		if i > 0 {
			n.does("netns", "add", n.space(i))
			t.Cleanup(func() { _ = ip("netns", "del", n.space(i)) })
		}
		n.does("link", "add", n.port(i), "type", "veth", "peer", "name", "eth0", "netns", n.space(i))
		n.does("link", "set", n.port(i), "master", n.name, "up")
		n.does("-n", n.space(i), "link", "set", "lo", "up")
		n.does("-n", n.space(i), "addr", "add", n.address(i)+"/24", "dev", "eth0")
		n.does("-n", n.space(i), "link", "set", "eth0", "up")
	}
	n.apart = true
	return n
}

func (n *network) space(i int) string { return fmt.Sprintf("%sg%d", n.name, i) }
func (n *network) port(i int) string  { return fmt.Sprintf("%sp%d", n.name, i) }

// address is where a gateway is.
func (n *network) address(i int) string {
	if n.subnet == "" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("%s.%d", n.subnet, i+1)
}

// command is a program in the network of a gateway.
func (n *network) command(i int, name string, args ...string) *exec.Cmd {
	if !n.apart {
		return exec.Command(name, args...)
	}
	return exec.Command("ip", append([]string{"netns", "exec", n.space(i), name}, args...)...) // it becomes that program
}

// dial reaches a gateway's own loopback.
func (n *network) dial(ctx context.Context, i int, address string) (net.Conn, error) {
	if !n.apart {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	there, err := os.Open("/run/netns/" + n.space(i))
	if err != nil {
		return nil, err
	}
	defer there.Close()
	runtime.LockOSThread()
	here, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer here.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address) // an address in figures: on this thread
	if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
		return nil, back // the thread ends with its goroutine
	}
	runtime.UnlockOSThread()
	return conn, err
}

// part has two gateways hear nothing of each other, or again. Packets between them are dropped: no
// side is told. While two pairs overlap, all three are apart.
func (n *network) part(a, b int, parted bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, i := range []int{a, b} {
		state := "on"
		if parted {
			n.split[i]++
		} else {
			n.split[i]--
			if n.split[i] == 0 {
				state = "off"
			}
		}
		if err := ip("link", "set", n.port(i), "type", "bridge_slave", "isolated", state); err != nil {
			n.t.Error(err)
		}
	}
}

func (n *network) does(args ...string) {
	n.t.Helper()
	must(n.t, ip(args...))
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// freeSubnet is one that this machine is not in.
func freeSubnet(t *testing.T) string {
	t.Helper()
	own, err := net.InterfaceAddrs()
	must(t, err)
next:
	for i := range 250 {
		subnet := fmt.Sprintf("10.213.%d", (os.Getpid()+i)%250)
		for _, a := range own {
			if strings.HasPrefix(a.String(), subnet+".") {
				continue next
			}
		}
		return subnet
	}
	t.Fatal("this machine is in 250 networks")
	return ""
}
