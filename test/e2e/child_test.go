package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// childEnv names the role of a process that a test started, and how to play it.
const childEnv = "HANDRAIL_E2E_CHILD"

// childOptions travel in childEnv.
type childOptions struct {
	Role    string // gateway or node
	Dir     string
	HTTP    string        // gateway: where to listen
	QUIC    string        // gateway: where to listen; node: where to dial
	Witness string        // node: the file that says what ran
	Pause   string        // gateway: while this file is there, no ticket follows a commit
	Wait    time.Duration // gateway: how long a call waits for a person; 0: nobody is asked
}

// childMode plays a role, if this process was started for one. It ends when its
// parent does.
func childMode() bool {
	text := os.Getenv(childEnv)
	if text == "" {
		return false
	}
	var o childOptions
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	c, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	play := map[string]func(context.Context, childOptions, *slog.Logger) error{"gateway": playGateway, "node": playNode}[o.Role]
	if err := play(c, o, log); err != nil {
		fmt.Fprintln(os.Stderr, o.Role+":", err)
		os.Exit(1)
	}
	return true
}

func playGateway(c context.Context, o childOptions, log *slog.Logger) error {
	cat, err := site.Catalog()
	if err != nil {
		return err
	}
	if o.Pause != "" {
		log = slog.New(&afterCommit{Handler: log.Handler(), stay: func(call string) {
			for first := true; ; first = false {
				if _, err := os.Stat(o.Pause); err != nil {
					return
				}
				if first {
					_ = os.WriteFile(o.Pause, []byte(call), 0o600)
				}
				time.Sleep(time.Millisecond)
			}
		}})
	}
	g, err := gateway.Open(c, gateway.Options{Dir: o.Dir, HTTP: o.HTTP, QUIC: o.QUIC, Catalog: cat, Version: "test", ApprovalWait: o.Wait, Log: log})
	if err != nil {
		return err
	}
	defer g.Close()
	for name, role := range map[string]principal.Role{"admin": principal.RoleAdmin, "agent": principal.RoleAgent} {
		spec := principal.Spec{Principal: capabilities.PrincipalID(name), Role: role, Lane: capabilities.LaneID(name)}
		if err := g.Token(c, filepath.Join(o.Dir, name+".token"), spec); err != nil {
			return err
		}
	}
	fmt.Printf("{\"http\":%q,\"quic\":%q}\n", g.HTTPAddr(), g.QUICAddr())
	onSignal()
	return g.Run(c)
}

func playNode(c context.Context, o childOptions, log *slog.Logger) error {
	cat, err := site.Catalog()
	if err != nil {
		return err
	}
	w, err := newWitness(o.Witness)
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Options{Dir: o.Dir, Handlers: []capabilities.Handler{w}, Catalog: cat, Addrs: []string{o.QUIC}, Version: "test", Log: log})
	if err != nil {
		return err
	}
	fmt.Println("{}")
	return a.Run(c)
}

// onSignal prepares what a test does to this process by a signal; nothing, where
// the system offers nothing.
var onSignal = func() {}

// witness is the fixture handler that writes down, before anything else and where
// no crash can undo it, what it was told to do.
type witness struct {
	*site.Handler
	file *os.File
}

func newWitness(path string) (*witness, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &witness{site.NewHandler(), f}, nil
}

func (w *witness) Handle(c context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var a struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(inv.Args, &a); err != nil {
		return capabilities.Output{}, err
	}
	if _, err := w.file.WriteString(a.Text + "\n"); err != nil {
		return capabilities.Output{}, err
	}
	switch kind, _, _ := strings.Cut(a.Text, "-"); kind {
	case "crash": // what recover does not catch
		go panic("the handler crashed as told")
		<-c.Done()
	case "nap":
		time.Sleep(rand.N(20 * time.Millisecond))
	}
	return w.Handler.Handle(c, inv)
}

// ran reads what the witnesses wrote: how often each text was executed.
func ran(t testing.TB, path string) map[string]int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for line := range strings.Lines(string(data)) {
		runs[strings.TrimSuffix(line, "\n")]++
	}
	return runs
}

func awaitRan(t testing.TB, path, text string) {
	t.Helper()
	for deadline := time.Now().Add(2 * site.Within); ran(t, path)[text] == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q never ran", text)
		}
	}
}

// child is a process that plays a role.
type child struct {
	t      testing.TB
	o      childOptions
	cmd    *exec.Cmd
	in     io.Closer
	stderr *bytes.Buffer
	ready  map[string]string
	ended  chan error
	reap   func() // idempotent
}

// startChild starts a process and waits until it says that it is up.
func startChild(t testing.TB, o childOptions) *child {
	t.Helper()
	text, err := json.Marshal(o)
	must(t, err)
	c := &child{t: t, o: o, cmd: exec.Command(os.Args[0]), stderr: &bytes.Buffer{}, ended: make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = c.stderr
	in, err := c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	must(t, c.cmd.Start())
	c.in = in
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		must(t, json.Unmarshal(lines.Bytes(), &c.ready))
	}
	c.reap = sync.OnceFunc(func() {
		_, _ = io.Copy(io.Discard, out)
		c.ended <- c.cmd.Wait()
	})
	if c.ready == nil {
		c.reap()
		t.Fatalf("%s did not start: %v\n%s", o.Role, <-c.ended, c.stderr)
	}
	t.Cleanup(func() {
		_ = in.Close() // its parent is gone, as far as it can tell
		c.reap()
		select {
		case err := <-c.ended:
			if err != nil {
				t.Errorf("%s: %v\n%s", o.Role, err, c.stderr)
			}
		default: // killed before
		}
	})
	return c
}

// kill ends it as a power cut would, and wants it to have lived until then.
func (c *child) kill() {
	c.t.Helper()
	must(c.t, c.cmd.Process.Kill())
	c.reap()
	<-c.ended
	if s := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGKILL {
		c.t.Errorf("%s ended by itself: %s\n%s", c.o.Role, c.cmd.ProcessState, c.stderr)
	}
}

// died waits for it to end by itself.
func (c *child) died() string {
	c.reap()
	<-c.ended
	return c.stderr.String()
}

// joinNode pairs a device with a site and returns its folder and its ID.
func joinNode(t testing.TB, paste pairing.Paste, quic string) (string, capabilities.NodeID) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	paste.Addrs = []string{quic}
	id, err := link.Join(ctx(), paste, link.JoinOptions{
		Dir: dir, Profile: pairing.Profile{Host: "child", Offers: agent.Offers([]capabilities.Handler{site.NewHandler()})},
	})
	must(t, err)
	return dir, id.Node
}

// gatewayDir is a data folder with the site's rules.
func gatewayDir(t testing.TB, dir string) string {
	t.Helper()
	must(t, os.Chmod(dir, 0o700))
	rules := filepath.Join(dir, "policy")
	must(t, os.MkdirAll(rules, 0o700))
	must(t, os.WriteFile(filepath.Join(rules, "default.cedar"), policy.DefaultSource(), 0o600))
	must(t, os.WriteFile(filepath.Join(rules, "test.cedar"), []byte(site.Rules), 0o600))
	return dir
}

// station is a gateway in a process of its own, with what the test needs to talk
// to it. It can be killed and started again at the same addresses.
type station struct {
	*child
	t       *testing.T
	key     chain.Key
	witness string                         // where its nodes write down what ran
	devices map[string]capabilities.NodeID // by folder
	*caller                                // an agent's
	admin   *caller
}

// startStation starts a gateway over a data folder.
func startStation(t *testing.T, dir string) *station {
	t.Helper()
	return startStationWith(t, childOptions{Dir: dir})
}

func startStationWith(t *testing.T, o childOptions) *station {
	t.Helper()
	s := &station{t: t, devices: map[string]capabilities.NodeID{}, witness: filepath.Join(t.TempDir(), "ran")}
	dir := gatewayDir(t, o.Dir)
	o.Role, o.HTTP, o.QUIC = "gateway", "127.0.0.1:0", "127.0.0.1:0"
	s.child = startChild(t, o)
	s.o.HTTP, s.o.QUIC = s.ready["http"], s.ready["quic"]
	s.caller, s.admin = s.clientOf("agent"), s.clientOf("admin")
	s.admin.awaitHealth()
	key, _, err := pairing.LoadOrCreateKey(filepath.Join(dir, "gateway.key"))
	must(t, err)
	s.key = chain.PublicKey(key)
	return s
}

func (s *station) clientOf(name string) *caller {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(s.o.Dir, name+".token"))
	must(s.t, err)
	return newCaller(s.t, "http://"+s.o.HTTP, strings.TrimSpace(string(token)))
}

// restart starts the killed gateway again.
func (s *station) restart() {
	s.t.Helper()
	s.child = startChild(s.t, s.o)
	s.admin.awaitHealth()
}

// join pairs a device with the gateway.
func (s *station) join() (dir string, id capabilities.NodeID) {
	s.t.Helper()
	var invite struct {
		Paste string `json:"paste"`
	}
	s.admin.ok(http.MethodPost, "/v1/invites", `{"label":"child","allow":["*"],"auto_approve":true}`, &invite)
	paste, err := pairing.ParsePaste(invite.Paste)
	must(s.t, err)
	dir, id = joinNode(s.t, paste, s.o.QUIC)
	s.devices[dir] = id
	return dir, id
}

// awaitNode waits until the gateway says that the node is ready.
func (s *station) awaitNode(id capabilities.NodeID) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * site.Within); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var n struct {
			Connected    bool              `json:"connected"`
			Capabilities []json.RawMessage `json:"capabilities"`
		}
		if status, body, err := s.admin.try(ctx(), http.MethodGet, "/v1/nodes/"+string(id), ""); err != nil || status != http.StatusOK || json.Unmarshal(body, &n) != nil {
			continue
		}
		if n.Connected && len(n.Capabilities) > 0 {
			return
		}
	}
	s.t.Fatalf("node %s never became ready\n%s", id, s.stderr)
}

// keptHeads are the heads of this gateway's chain that its nodes keep: the export
// must contain them, or something was cut off.
func (s *station) keptHeads() []chain.Head {
	s.t.Helper()
	var kept []chain.Head
	for dir, id := range s.devices {
		data, err := os.ReadFile(filepath.Join(dir, "journal", string(id), "heads.json"))
		if os.IsNotExist(err) {
			continue
		}
		must(s.t, err)
		var all []chain.Head
		must(s.t, json.Unmarshal(data, &all))
		for _, head := range all {
			if head.Chain != string(id) {
				kept = append(kept, head)
			}
		}
	}
	return kept
}

// read returns the ledger as it is now, after its chain was checked.
func (s *station) read() map[capabilities.CallID]*story {
	s.t.Helper()
	status, export := s.admin.do(http.MethodGet, "/v1/ledger/export", "")
	if status != http.StatusOK {
		s.t.Fatalf("export: %d %.300s", status, export)
	}
	return stories(s.t, export, ledger.Pins{Keys: []chain.Key{s.key}, Heads: s.keptHeads()})
}

// check waits until every call has an end and looks at the whole ledger.
func (s *station) check() map[capabilities.CallID]*story {
	s.t.Helper()
	for deadline := time.Now().Add(4 * site.Within); ; time.Sleep(50 * time.Millisecond) {
		all := s.read()
		open := 0
		for _, st := range all {
			if st.open() {
				open++
			}
		}
		if open > 0 && time.Now().Before(deadline) {
			continue
		}
		for _, st := range all {
			if wrong := st.whole(); wrong != "" {
				s.t.Errorf("grave: the ledger of call %s (%s): %s in %q", st.call, st.tool, wrong, st.kinds)
			}
		}
		return all
	}
}
