package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
)

// fleet is gateways of one site and its nodes, each a process, between which everything can be cut.
type fleet struct {
	t        *testing.T
	home     string
	program  string
	server   *pgtest.Server
	net      *network
	gateways []*gateway
	nodes    []*node
	mounts   bool // nodes have disks of their own
}

type gateway struct {
	*process
	index int
	data  string
	http  string // on the loopback of its network
	quic  string
	relay *Relay // by which nodes come
	way   *Way   // by which it comes to the database
	admin *client.Client
}

type node struct {
	*process
	id    capabilities.NodeID
	label string
	data  string
	files string
}

const seconds = time.Second

// builds the fleet and returns once every node can be called through every gateway.
func builds(t *testing.T, o options) *fleet {
	t.Helper()
	f := &fleet{t: t, home: o.dir, program: o.program, server: pgtest.Start(t), net: newNetwork(t, o.gateways)}
	f.addresses(o)
	f.gateways[0].process = f.serve(0)
	f.await("the first gateway", func() bool { return f.ready(0) })
	f.rules()
	for i := range o.nodes {
		f.nodes = append(f.nodes, f.joins(i))
	}
	for i := range f.gateways[1:] {
		f.copyKeys(i + 1)
		f.gateways[i+1].process = f.serve(i + 1)
	}
	for i := range f.gateways {
		f.await(fmt.Sprintf("all nodes at gateway %d", i+1), func() bool { return f.knows(i) })
	}
	return f
}

// addresses chooses where everything is.
func (f *fleet) addresses(o options) {
	place, err := url.Parse(f.server.Named("fleet"))
	must(f.t, err)
	for i := range o.gateways {
		g := &gateway{index: i, data: filepath.Join(f.home, fmt.Sprintf("gateway%d", i+1)), http: "127.0.0.1:7480"}
		g.quic = f.net.address(i) + ":7443"
		if !f.net.apart {
			g.http, g.quic = freePort(f.t), freePort(f.t)
		}
		must(f.t, os.MkdirAll(g.data, 0o700))
		g.relay, err = NewRelay(g.quic, o.seed)
		must(f.t, err)
		f.t.Cleanup(g.relay.Close)
		socket := ".s.PGSQL." + place.Query().Get("port")
		way := filepath.Join(f.home, fmt.Sprintf("db%d", i+1))
		must(f.t, os.MkdirAll(way, 0o700))
		g.way, err = NewWay(filepath.Join(way, socket), filepath.Join(place.Query().Get("host"), socket))
		must(f.t, err)
		f.t.Cleanup(g.way.Close)
		f.gateways = append(f.gateways, g)
	}
}

// serve starts a gateway.
func (f *fleet) serve(i int) *process {
	g := f.gateways[i]
	place, err := url.Parse(f.server.Named("fleet"))
	must(f.t, err)
	q := place.Query()
	q.Set("host", filepath.Join(f.home, fmt.Sprintf("db%d", i+1)))
	place.RawQuery = q.Encode()
	args := []string{
		"gateway", "--store", place.String(), "--fleet", net.JoinHostPort(f.net.address(i), f.peerPort(i)), "--http", g.http, "--quic", g.quic,
		"--advertise", g.relay.Addr(), "--json",
	}
	for _, other := range f.gateways {
		if other != g {
			args = append(args, "--other-gateway", other.relay.Addr())
		}
	}
	return starts(f.t, fmt.Sprintf("gateway %d", i+1), g.data+".log", func() *exec.Cmd {
		cmd := f.net.command(i, f.program, args...)
		cmd.Env = f.env(g.data)
		return cmd
	})
}

func (f *fleet) peerPort(i int) string {
	if f.net.apart {
		return "7445"
	}
	return "0"
}

func (f *fleet) env(data string) []string {
	return append(os.Environ(), "HOME="+f.home, "HANDRAIL_DATA="+data)
}

// at is a client of a gateway.
func (f *fleet) at(i int, token client.Token) *client.Client {
	c, err := client.New(f.gateways[i].http, token)
	must(f.t, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return f.net.dial(ctx, i, address)
	}}
	f.t.Cleanup(transport.CloseIdleConnections)
	c.Through(func(http.RoundTripper) http.RoundTripper { return transport })
	return c
}

// ready reports whether a gateway serves, and keeps a client of it.
func (f *fleet) ready(i int) bool {
	g := f.gateways[i]
	if g.admin == nil {
		text, err := os.ReadFile(filepath.Join(f.gateways[0].data, "gateway/admin.token"))
		if err != nil {
			return false
		}
		g.admin = f.at(i, client.NewToken(string(text)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*seconds)
	defer cancel()
	_, err := g.admin.Nodes(ctx)
	return err == nil
}

// knows reports whether a gateway has every node's tools.
func (f *fleet) knows(i int) bool {
	if !f.ready(i) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*seconds)
	defer cancel()
	all, err := f.gateways[i].admin.Nodes(ctx)
	if err != nil {
		return false
	}
	ready := 0
	for _, n := range all {
		for _, c := range n.Capabilities {
			if n.Connected && c.Tool == bash && c.Available {
				ready++
			}
		}
		for _, mine := range f.nodes {
			if mine.label == n.Label {
				mine.id = n.ID
			}
		}
	}
	return ready == len(f.nodes)
}

// does runs a command at a gateway that has to end well.
func (f *fleet) does(i int, in string, args ...string) string {
	f.t.Helper()
	out, err := f.tries(i, f.gateways[i].data, in, args...)
	if err != nil {
		f.t.Fatalf("handrail %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func (f *fleet) tries(i int, data, in string, args ...string) (string, error) {
	cmd := f.net.command(i, f.program, args...)
	cmd.Env, cmd.Stdin = f.env(data), strings.NewReader(in)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s%s", err, out.String(), said.String())
	}
	return out.String(), nil
}

// freely is the lanes in which nobody is asked about commands.
const freely = `@id("freely") permit (principal, action == Action::"tool.fs.bash", resource) when { context.lane like "free-*" };`

func (f *fleet) rules() {
	must(f.t, os.WriteFile(filepath.Join(f.gateways[0].data, "gateway/policy/freely.cedar"), []byte(freely), 0o600))
	f.does(0, "", "policy", "activate", "--yes")
}

// joins pairs a node and starts it. Its data have a small disk of their own, where that is to be
// had.
func (f *fleet) joins(i int) *node {
	n := &node{label: fmt.Sprintf("node%d", i+1)}
	n.data, n.files = filepath.Join(f.home, n.label), filepath.Join(f.home, "files", n.label)
	must(f.t, os.MkdirAll(filepath.Join(n.files, "effects"), 0o700))
	must(f.t, os.MkdirAll(n.data, 0o700))
	if f.net.apart && syscall.Mount("none", n.data, "tmpfs", 0, "size=48m,mode=700") == nil {
		f.mounts = true
		f.t.Cleanup(func() { _ = syscall.Unmount(n.data, syscall.MNT_DETACH) })
	}
	var made struct{ Paste string }
	must(f.t, json.Unmarshal([]byte(f.does(0, "", "pair", "--label", n.label, "--yes", "--no-wait", "--json")), &made))
	cmd := exec.Command(f.program, "node", "join", "--data", n.data)
	cmd.Env, cmd.Stdin = f.env(n.data), strings.NewReader(made.Paste+"\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("joining: %v: %s", err, out)
	}
	n.process = starts(f.t, n.label, n.data+".log", func() *exec.Cmd {
		cmd := exec.Command(f.program, "node", "--data", n.data, "--workspace", n.files, "--desktop", "off", "--json")
		cmd.Env = f.env(n.data)
		return cmd
	})
	return n
}

// copyKeys copies the site's keys to a gateway.
func (f *fleet) copyKeys(i int) {
	to := filepath.Join(f.gateways[i].data, "gateway")
	must(f.t, os.CopyFS(to, os.DirFS(filepath.Join(f.gateways[0].data, "gateway"))))
	must(f.t, filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	}))
	must(f.t, os.Remove(filepath.Join(to, "gateway.json")))
}

// within is how long something may take that has to come.
const within = 3 * time.Minute

func (f *fleet) await(what string, is func() bool) {
	f.t.Helper()
	for until := time.Now().Add(within); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			f.t.Fatalf("there is not %s after %s", what, within)
		}
	}
}

// export writes the ledger to a file, by whichever gateway answers.
func (f *fleet) export(to string) error {
	var err error
	for _, g := range f.gateways {
		var file *os.File
		if file, err = os.Create(to); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err = errors.Join(g.admin.ExportLedger(ctx, file), file.Close())
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
