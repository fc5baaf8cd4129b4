package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/test/site"
)

// town is a gateway, a device and another machine in network namespaces of their own,
// on one network: 10.9.0.0/24 and fd09::/64, the gateway at 1, the device at 2.
type town struct {
	t                      *testing.T
	program                string
	gateway, desk, another string // namespaces
	dir                    string // the gateway's data
}

func (w *town) run(name string, args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), name, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// in runs the program in a namespace and returns what it prints.
func (w *town) in(space, input string, args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "ip", append([]string{"netns", "exec", space, w.program}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var said, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &problems
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("%v: %v\n%s%s", args, err, said.String(), problems.String())
	}
	return said.String()
}

// start runs the program in a namespace until the test ends.
func (w *town) start(space string, args ...string) {
	w.t.Helper()
	cmd := exec.Command("ip", append([]string{"netns", "exec", space, w.program}, args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("%v:\n%s", args, said.String())
		}
	})
}

func (w *town) await(what string, done func() bool) {
	w.t.Helper()
	until(w.t, what, done)
}

// newTown lays the network and pairs the device; it needs root.
func newTown(t *testing.T) *town {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("there is no 'ip' to make network namespaces with")
	}
	tag := fmt.Sprint(os.Getpid() % 100000)
	w := &town{t: t, gateway: "hrg" + tag, desk: "hrd" + tag, another: "hra" + tag, dir: t.TempDir(), program: theProgram(t)}
	if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", w.gateway).CombinedOutput(); err != nil {
		t.Skipf("network namespaces cannot be made here: %v %s", err, out)
	}
	t.Cleanup(func() {
		for _, space := range []string{w.gateway, w.desk, w.another} {
			_ = exec.Command("ip", "netns", "del", space).Run()
		}
	})
	w.run("ip", "-n", w.gateway, "link", "set", "lo", "up")
	w.run("ip", "-n", w.gateway, "link", "add", "lan", "type", "bridge")
	for i, space := range []string{w.desk, w.another} {
		port, far := fmt.Sprintf("p%d", i), fmt.Sprintf("v%d%s", i, tag)
		w.run("ip", "netns", "add", space)
		w.run("ip", "-n", space, "link", "set", "lo", "up")
		w.run("ip", "link", "add", far, "netns", w.gateway, "type", "veth", "peer", "name", "lan", "netns", space)
		w.run("ip", "-n", w.gateway, "link", "set", far, "name", port, "master", "lan", "up")
		w.run("ip", "-n", space, "link", "set", "lan", "up")
	}
	w.run("ip", "-n", w.gateway, "link", "set", "lan", "up")
	for _, a := range []struct{ space, addr string }{
		{w.gateway, "10.9.0.1/24"}, {w.gateway, "fd09::1/64"}, {w.gateway, "fd0a::1/64"},
		{w.desk, "10.9.0.2/24"}, {w.desk, "10.9.0.3/24"}, {w.desk, "fd09::2/64"}, {w.desk, "fd09::aaaa/64"},
		{w.another, "10.9.0.9/24"}, {w.another, "fd0a::9/64"},
	} {
		args := []string{"-n", a.space, "addr", "add", a.addr, "dev", "lan"}
		if strings.Contains(a.addr, "::") {
			args = append(args, "nodad")
		}
		w.run("ip", args...)
	}
	w.start(w.gateway, "gateway", "--data", w.dir, "--http", "[::]:7480", "--quic", ":7443", "--tls-generated")
	w.await("the gateway", func() bool {
		_, err := os.Stat(filepath.Join(w.dir, "gateway", "gateway.json"))
		return err == nil
	})
	paste := regexp.MustCompile(`hr\d:\S+`).FindString(w.in(w.gateway, "", "--data", w.dir, "pair", "--yes", "--no-wait", "--no-qr"))
	at := t.TempDir()
	w.in(w.desk, paste, "--data", at, "node", "join", "--label", "desk")
	w.start(w.desk, "--data", at, "node", "--desktop", "off")
	return w
}

// do makes a request to the gateway out of a namespace, from one of its addresses.
func (w *town) do(space, from, token, method, path, body string) (int, string) {
	w.t.Helper()
	status, answer, err := w.send(space, from, token, method, path, body)
	if err != nil {
		w.t.Fatalf("%s from %s: %v", path, from, err)
	}
	return status, answer
}

// send is do for another goroutine.
func (w *town) send(space, from, token, method, path, body string) (int, string, error) {
	url := "https://10.9.0.1:7480"
	local := net.ParseIP(from)
	switch {
	case strings.HasPrefix(from, "fd0a"):
		url = "https://[fd0a::1]:7480"
	case local.To4() == nil:
		url = "https://[fd09::1]:7480"
	}
	client := &http.Client{Timeout: site.Within, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialIn(ctx, space, local, addr)
		},
	}}
	req, err := http.NewRequestWithContext(w.t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), err
}

// dialIn connects out of a network namespace: the socket is made on a thread in it.
func dialIn(ctx context.Context, space string, from net.IP, addr string) (net.Conn, error) {
	runtime.LockOSThread() // never unlocked: a thread that could not go back is not used again
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer home.Close()
	there, err := os.Open("/var/run/netns/" + space)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).DialContext(ctx, "tcp", addr)
	if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return conn, err
}

// With an agent's hands on a device, nothing that widens is taken from it, by none of its
// addresses: another IPv4 than the node's, its IPv6, a privacy address, one that it takes later; on
// networks that are real. The gateway's own lists judge what ran.
func TestNoAddressOfALentDeviceIsElsewhere(t *testing.T) {
	w := newTown(t)
	token := func(name, role string) string {
		lines := strings.Fields(w.in(w.gateway, "", "--data", w.dir, "token", "create", name, "--role", role))
		return lines[len(lines)-1]
	}
	operator, bot := token("alice", "operator"), token("bot", "agent")
	root, err := os.ReadFile(filepath.Join(w.dir, "gateway", "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	admin := strings.TrimSpace(string(root))
	var node string
	w.await("the device", func() bool {
		_, list := w.do(w.gateway, "10.9.0.1", operator, "GET", "/v1/nodes", "")
		found := regexp.MustCompile(`"node_id":"([^"]+)"`).FindStringSubmatch(list)
		if found == nil || !strings.Contains(list, `"connected":true`) {
			return false
		}
		node = found[1]
		return true
	})
	lend := fmt.Sprintf(`{"principal":"bot","tools":["tool.desktop.*"],"node":%q,"any_lane":true}`, node)
	if status, answer := w.do(w.gateway, "10.9.0.1", operator, "POST", "/v1/grants", lend); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	ask := func(n int) string {
		go w.send(w.gateway, "10.9.0.1", bot, "POST", "/v1/calls", fmt.Sprintf(`{"tool":"tool.browser.launch","args":{"headless":false,"profile":"p%d"}}`, n))
		var list struct {
			Approvals []struct {
				Approval string `json:"approval"`
			} `json:"approvals"`
		}
		w.await("the question", func() bool {
			_, answer := w.do(w.gateway, "10.9.0.1", operator, "GET", "/v1/approvals", "")
			return json.Unmarshal([]byte(answer), &list) == nil && len(list.Approvals) == 1
		})
		return list.Approvals[0].Approval
	}
	question := ask(0)
	yes := `{"answer":"allow","acknowledged":true}`
	refused := func(from string) {
		t.Helper()
		for _, c := range []struct{ token, method, path, body string }{
			{operator, "POST", "/v1/approvals/" + question, yes},
			{operator, "POST", "/v1/grants", fmt.Sprintf(`{"principal":"bot","tools":["tool.browser.*"],"node":%q}`, node)},
			{admin, "POST", "/v1/tokens", `{"principal":"evil","role":"admin"}`},
			{admin, "POST", "/v1/policy/activate", `{"to":"x","from":"y"}`},
			{admin, "POST", "/v1/invites", `{}`}, {admin, "POST", "/v1/resume", `{}`}, {operator, "POST", "/v1/logins", `{}`},
		} {
			if status, answer := w.do(w.desk, from, c.token, c.method, c.path, c.body); status != 403 || !strings.Contains(answer, `"hands_elsewhere"`) {
				t.Errorf("%s %s from %s: %d %s", c.method, c.path, from, status, answer)
			}
		}
	}
	for _, from := range []string{"10.9.0.2", "10.9.0.3", "fd09::2", "fd09::aaaa"} {
		refused(from)
	}
	// An address of a network that the gateway is in, which the device takes only now.
	w.run("ip", "-n", w.desk, "addr", "add", "10.9.0.77/24", "dev", "lan")
	w.run("ip", "-n", w.desk, "addr", "add", "fd0a::2/64", "dev", "lan", "nodad")
	// Every call has it told.
	if status, answer := w.do(w.gateway, "10.9.0.1", bot, "POST", "/v1/calls", `{"tool":"tool.browser.launch","args":{}}`); status != 200 || !strings.Contains(answer, `"status":"ok"`) {
		t.Fatalf("%d %s", status, answer)
	}
	refused("10.9.0.77")
	refused("fd0a::2")
	if _, answer := w.do(w.gateway, "10.9.0.1", admin, "GET", "/v1/tokens", ""); strings.Contains(answer, "evil") {
		t.Error("there is a token of evil's")
	}
	if _, answer := w.do(w.gateway, "10.9.0.1", operator, "GET", "/v1/grants", ""); strings.Count(answer, `"grant":`) != 1 {
		t.Errorf("left behind: %s", answer)
	}
	// The controls: denying from there, and allowing from another machine of the network
	// and from the gateway's own.
	if status, answer := w.do(w.desk, "fd09::2", operator, "POST", "/v1/approvals/"+question, `{"answer":"deny"}`); status != 200 {
		t.Errorf("denying: %d %s", status, answer)
	}
	question = ask(1)
	if status, answer := w.do(w.another, "fd0a::9", operator, "POST", "/v1/approvals/"+question, yes); status != 403 {
		t.Errorf("the /64 that the device is in now, too: %d %s", status, answer)
	}
	if status, answer := w.do(w.another, "10.9.0.9", operator, "POST", "/v1/approvals/"+question, yes); status != 200 {
		t.Errorf("from another machine: %d %s", status, answer)
	}
	question = ask(2)
	if status, answer := w.do(w.gateway, "10.9.0.1", operator, "POST", "/v1/approvals/"+question, yes); status != 200 {
		t.Errorf("from the gateway's own machine: %d %s", status, answer)
	}
}

// listenIn opens a UDP socket in a network namespace.
func listenIn(space, addr string) (net.PacketConn, error) {
	runtime.LockOSThread() // as in dialIn
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer home.Close()
	there, err := os.Open("/var/run/netns/" + space)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	conn, err := net.ListenPacket("udp", addr)
	if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return conn, err
}

// hairpin has the other machine hand on to the gateway what reaches it on a port, as a
// router does that translates a public address.
func (w *town) hairpin(port int) {
	w.t.Helper()
	outside, err := listenIn(w.another, fmt.Sprintf("10.9.0.9:%d", port))
	if err != nil {
		w.t.Fatal(err)
	}
	inside, err := listenIn(w.another, "10.9.0.9:0")
	if err != nil {
		w.t.Fatal(err)
	}
	gateway := &net.UDPAddr{IP: net.IPv4(10, 9, 0, 1), Port: 7443}
	var mu sync.Mutex
	var client net.Addr // there is one
	var ended sync.WaitGroup
	hand := func(from, to net.PacketConn, whom func(net.Addr) net.Addr) {
		buf := make([]byte, 1<<16)
		for {
			n, at, err := from.ReadFrom(buf)
			if err != nil {
				return
			}
			if to, whom := to, whom(at); whom != nil {
				_, _ = to.WriteTo(buf[:n], whom)
			}
		}
	}
	ended.Go(func() {
		hand(outside, inside, func(at net.Addr) net.Addr {
			mu.Lock()
			defer mu.Unlock()
			client = at
			return gateway
		})
	})
	ended.Go(func() {
		hand(inside, outside, func(net.Addr) net.Addr {
			mu.Lock()
			defer mu.Unlock()
			return client
		})
	})
	w.t.Cleanup(func() {
		_ = outside.Close()
		_ = inside.Close()
		ended.Wait()
	})
}

// The node of the gateway's own machine speaks from another machine's address, by a hairpin NAT,
// while an agent has its hands on it. A request from that machine, by loopback or by its address,
// is not from elsewhere; one from the translator is not either.
func TestAHairpinIsNotElsewhere(t *testing.T) {
	w := newTown(t)
	w.hairpin(7443)
	token := func(name, role string) string {
		lines := strings.Fields(w.in(w.gateway, "", "--data", w.dir, "token", "create", name, "--role", role))
		return lines[len(lines)-1]
	}
	operator := token("alice", "operator")
	paste := regexp.MustCompile(`hr\d:\S+`).FindString(w.in(w.gateway, "", "--data", w.dir, "pair", "--yes", "--no-wait", "--no-qr"))
	at := t.TempDir()
	w.in(w.gateway, paste, "--data", at, "node", "join", "--label", "own")
	w.start(w.gateway, "--data", at, "node", "--desktop", "off", "--gateway", "10.9.0.9:7443")
	var own string
	w.await("the gateway's own device", func() bool {
		_, answer := w.do(w.gateway, "10.9.0.1", operator, "GET", "/v1/nodes", "")
		var list struct {
			Nodes []struct {
				ID        string `json:"node_id"`
				Label     string `json:"label"`
				Connected bool   `json:"connected"`
			} `json:"nodes"`
		}
		if err := json.Unmarshal([]byte(answer), &list); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		for _, n := range list.Nodes {
			if n.Label == "own" && n.Connected {
				own = n.ID
				return true
			}
		}
		return false
	})
	lend := fmt.Sprintf(`{"principal":"bot","tools":["tool.desktop.*"],"node":%q,"any_lane":true}`, own)
	if status, answer := w.do(w.another, "10.9.0.9", operator, "POST", "/v1/grants", lend); status != 200 { // nothing is lent yet
		t.Fatalf("%d %s", status, answer)
	}
	for _, c := range []struct{ what, space, from string }{
		{"its own address", w.gateway, "10.9.0.1"}, {"its own address of IPv6", w.gateway, "fd09::1"}, {"the translator", w.another, "10.9.0.9"},
	} {
		if status, answer := w.do(c.space, c.from, operator, "POST", "/v1/grants", lend); status != 403 || !strings.Contains(answer, `"hands_elsewhere"`) {
			t.Errorf("%s: %d %s", c.what, status, answer)
		}
	}
	if _, answer := w.do(w.gateway, "10.9.0.1", operator, "GET", "/v1/grants", ""); strings.Count(answer, `"grant":`) != 1 {
		t.Errorf("left behind: %s", answer)
	}
}
