package netsim

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait. It is reached only by a failure.
const patience = 30 * time.Second

const echo = capabilities.CapabilityID("tyrum.browser.evaluate")

func logger(t testing.TB) *slog.Logger {
	if os.Getenv("NETSIM_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// by is the transport of the test that runs. Tests of this package run one after the other.
var by = tunnel.QUIC

// each runs a test over each transport.
func each(t *testing.T, test func(t *testing.T)) {
	over(t, test, tunnel.QUIC, tunnel.TCP, tunnel.WebSocket)
}

// over runs a test over some of them.
func over(t *testing.T, test func(t *testing.T), transports ...tunnel.Transport) {
	for _, over := range transports {
		t.Run(string(over), func(t *testing.T) {
			by = over
			defer func() { by = tunnel.QUIC }()
			test(t)
		})
	}
}

// gateway is a gateway's node plane on a database and keys that outlive it.
type gateway struct {
	t     testing.TB
	dir   string
	addr  string
	beat  time.Duration
	tune  func(*nodes.Options)
	nodes *nodes.Nodes
	store *store.Store
	front *front.Server // where a node comes by a WebSocket
	door  string        // its address
	stop  func()

	mu      sync.Mutex
	packets []string
}

func newGateway(t testing.TB, tune func(*nodes.Options)) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", beat: time.Second, tune: tune}
	g.start()
	t.Cleanup(func() { g.stop() })
	return g
}

// start brings the gateway up, the second time on the same port.
func (g *gateway) start() {
	g.t.Helper()
	siteKey, _, err := pairing.LoadOrCreateKey(filepath.Join(g.dir, "site.key"))
	must(g.t, err)
	key, _, err := pairing.LoadOrCreateKey(filepath.Join(g.dir, "gateway.key"))
	must(g.t, err)
	site, err := pairing.NewSite(siteKey)
	must(g.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	g.store, err = store.Open(ctx, store.Options{Path: filepath.Join(g.dir, "store.db"), Migrations: nodes.Migrations(), ReserveBytes: -1})
	must(g.t, err)
	o := nodes.Options{
		Store: g.store, Site: site, Key: key, Addr: g.addr, Heartbeat: g.beat, Log: logger(g.t),
		Record: func(tx *store.Tx, kind string, _ capabilities.NodeID, _ any) error {
			tx.OnCommit(func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.packets = append(g.packets, kind)
			})
			return nil
		},
	}
	if g.tune != nil {
		g.tune(&o)
	}
	g.nodes, err = nodes.New(o)
	must(g.t, err)
	addr, err := g.nodes.Listen(ctx)
	must(g.t, err)
	g.addr = addr.String()
	fronted := g.openFront(ctx)
	storeCtx, cancelStore := context.WithCancel(context.Background())
	stored := make(chan error, 1)
	go func() { stored <- g.store.Run(storeCtx) }()
	done := make(chan error, 1)
	go func() { done <- g.nodes.Run(ctx) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			g.t.Errorf("gateway: %v", err)
		}
		if err := <-fronted; err != nil {
			g.t.Errorf("front: %v", err)
		}
		cancelStore()
		if err := <-stored; err != nil {
			g.t.Errorf("store: %v", err)
		}
		_ = g.store.Close()
	})
}

func (g *gateway) invite(spec nodes.InviteSpec) (nodes.Invite, pairing.Paste) {
	g.t.Helper()
	inv, paste, err := g.nodes.Invite(context.Background(), spec)
	must(g.t, err)
	paste.Addrs = []string{g.place()}
	return inv, paste
}

// place is where the gateway is for the transport of the test.
func (g *gateway) place() string {
	if by == tunnel.WebSocket {
		return at(g.door)
	}
	return g.addr
}

// at returns how a node is told of a gateway behind a relay.
func at(relay string) string {
	if by == tunnel.WebSocket {
		return "http://" + relay
	}
	return relay
}

// way returns a relay to where the gateway takes the transport of the test.
func (g *gateway) way() relay {
	switch by {
	case tunnel.TCP:
		return newStreamProxy(g.t, g.addr)
	case tunnel.WebSocket:
		return newStreamProxy(g.t, g.door)
	}
	return newProxy(g.t, g.addr)
}

// openFront serves WebSockets, if the test is about them; the second time on the same port.
func (g *gateway) openFront(ctx context.Context) chan error {
	done := make(chan error, 1)
	if by != tunnel.WebSocket {
		done <- nil
		return done
	}
	if g.door == "" {
		g.door = "127.0.0.1:0"
	}
	var err error
	g.front, err = front.New(front.Options{Addr: g.door, Tokens: noTokens{}, Nodes: g.nodes, Log: logger(g.t)})
	must(g.t, err)
	must(g.t, g.front.Listen())
	g.door = g.front.Addr().String()
	go func() { done <- g.front.Run(ctx) }()
	return done
}

// noTokens lets nobody in.
type noTokens struct{}

func (noTokens) Authenticate(string) (principal.Identity, error) {
	return principal.Identity{}, &capabilities.Error{Code: capabilities.CodeUnauthenticated}
}

func (noTokens) Session(string) (principal.Identity, error) {
	return principal.Identity{}, &capabilities.Error{Code: capabilities.CodeUnauthenticated}
}

// await waits until ok holds of the roster.
func (g *gateway) await(what string, ok func([]nodes.View) bool) {
	g.t.Helper()
	deadline := time.After(patience)
	for {
		changed := g.nodes.Changed()
		if ok(g.nodes.Views()) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			g.t.Fatalf("%s did not happen; the roster is %+v", what, g.nodes.Views())
		}
	}
}

func (g *gateway) awaitConnected(ids ...capabilities.NodeID) {
	g.t.Helper()
	g.await("connected", func(views []nodes.View) bool {
		up := map[capabilities.NodeID]bool{}
		for _, v := range views {
			up[v.ID] = v.Connected
		}
		for _, id := range ids {
			if !up[id] {
				return false
			}
		}
		return true
	})
}

func (g *gateway) awaitGone(id capabilities.NodeID) {
	g.t.Helper()
	g.await("disconnected", func(views []nodes.View) bool {
		for _, v := range views {
			if v.ID == id && v.Connected {
				return false
			}
		}
		return true
	})
}

func (g *gateway) call(ctx context.Context, id capabilities.NodeID, args string) (wire.Answer, []capabilities.Blob, error) {
	return g.nodes.Dispatch(ctx, id, ticket(id, args), nil)
}

var callCount sync.Map

func ticket(id capabilities.NodeID, args string) *wire.Ticket {
	n, _ := callCount.LoadOrStore(id, new(int))
	*n.(*int)++
	return &wire.Ticket{
		Call: capabilities.CallID(fmt.Sprintf("c%s-%d", id, *n.(*int))), Tool: echo.Tool(), Capability: echo, Lane: "main", Node: id,
		Args: []byte(args), ArgsDigest: sha256.Sum256([]byte(args)), LifetimeMS: 10_000, DeadlineMS: 30_000,
	}
}

// node is a device with a link.
type node struct {
	t     testing.TB
	dir   string
	opts  link.Options
	id    capabilities.NodeID
	state chan link.State
	done  chan error // Run's end
	stop  func()
}

type serveFunc func(ctx context.Context, t *wire.Ticket, sink link.Sink)

// answerEcho returns the arguments back.
func answerEcho(_ context.Context, t *wire.Ticket, sink link.Sink) {
	sink.Answer(wire.Answer{Status: capabilities.StatusOK, Output: t.Args}, nil)
}

var readyEcho = []capabilities.Readiness{{Capability: echo, Isolation: capabilities.ClassT2, Backend: "test"}}

func newNode(t testing.TB, serve serveFunc) *node {
	n := &node{t: t, dir: t.TempDir()}
	n.opts = link.Options{
		Dir: n.dir, Serve: serve, Log: logger(t),
		Journal: func(_ context.Context, ask *wire.JournalAsk) []wire.JournalState {
			states := make([]wire.JournalState, len(ask.Calls))
			for i, c := range ask.Calls {
				states[i] = wire.JournalState{Call: c, State: wire.StateNeverStarted}
			}
			return states
		},
		Hello:     func() wire.Hello { return wire.Hello{Agent: "test", Platform: "linux", Arch: "amd64", Host: "desk"} },
		Readiness: func(context.Context) []capabilities.Readiness { return readyEcho },
		Backoff:   link.Backoff{Min: 10 * time.Millisecond, Max: 200 * time.Millisecond},

		Transports: []tunnel.Transport{by},
	}
	return n
}

var profile = pairing.Profile{Label: "desk", Host: "desk.example", Platform: "linux", Arch: "amd64", Agent: "test", Offers: []capabilities.CapabilityID{echo}}

func (n *node) join(ctx context.Context, paste pairing.Paste, progress func(link.JoinStep)) error {
	id, err := link.Join(ctx, paste, link.JoinOptions{Dir: n.dir, Profile: profile, Progress: progress, Backoff: n.opts.Backoff, Log: logger(n.t), Transports: n.opts.Transports, Proxy: n.opts.Proxy})
	if err == nil {
		n.id = id.Node
	}
	return err
}

// run starts the link; Cleanup ends it.
func (n *node) run() {
	n.t.Helper()
	n.state = make(chan link.State, 1000)
	n.opts.OnState = func(s link.State) {
		select {
		case n.state <- s:
		default:
		}
	}
	l, err := link.New(n.opts)
	must(n.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() { done <- l.Run(ctx); close(ended) }()
	n.done = done
	n.stop = func() { cancel(); <-ended }
	n.t.Cleanup(n.stop)
}

// awaitState waits for a state that ok likes.
func (n *node) awaitState(what string, ok func(link.State) bool) link.State {
	n.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case s := <-n.state:
			if ok(s) {
				return s
			}
		case <-deadline:
			n.t.Fatalf("the link never came to be %s", what)
		}
	}
}

func (n *node) awaitEnd() error {
	n.t.Helper()
	select {
	case err := <-n.done:
		return err
	case <-time.After(patience):
		n.t.Fatal("the link did not end")
		return nil
	}
}

// pair makes a joined, running, connected node.
func (g *gateway) pair(serve serveFunc) *node {
	g.t.Helper()
	n := newNode(g.t, serve)
	_, paste := g.invite(nodes.InviteSpec{AutoApprove: true, By: "admin"})
	must(g.t, n.join(context.Background(), paste, nil))
	n.run()
	g.awaitConnected(n.id)
	return n
}

func (g *gateway) snapshot(id capabilities.NodeID) route.Node {
	for _, s := range g.nodes.Snapshot() {
		if s.ID == id {
			return s
		}
	}
	return route.Node{}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code capabilities.Code) *capabilities.Error {
	t.Helper()
	if capabilities.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return capabilities.AsError(err)
}

type (
	wireTicket = wire.Ticket
	storeTx    = store.Tx
)

var invitation = nodes.InviteSpec{AutoApprove: true, By: "admin"}

func withHeads(head *wire.Head, onNode func(capabilities.NodeID, string, wire.Head)) func(*nodes.Options) {
	return func(o *nodes.Options) {
		o.Head = func() *wire.Head { return head }
		o.OnNodeHead = func(n capabilities.NodeID, key ed25519.PublicKey, h wire.Head) { onNode(n, string(key), h) }
	}
}
