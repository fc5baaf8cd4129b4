package nodes

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/time/rate"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// Options of New; required unless a default is named.
type Options struct {
	Store *store.Store // opened with Migrations
	Site  *pairing.Site
	Key   ed25519.PrivateKey // this gateway's
	// Addr is the UDP address to listen on; default ":7443". TCP is listened to at the same one, for
	// nodes whose network drops UDP, unless NoTCP says that another server hands those to Carry.
	Addr  string
	NoTCP bool
	// Advertise returns the addresses to put into pastes; default: the ones the
	// listener can be reached at, as far as this host can tell.
	Advertise func() []string
	// Version of this program, which nodes are told; default: they are told none.
	Version string
	// CatalogHash is compared with the nodes'; a difference is told, not refused.
	CatalogHash [32]byte
	// TakesSteps reports whether calls of a capability take steps: a node that does not
	// ask for each of them is not ready for it. Default: none does.
	TakesSteps func(capabilities.CapabilityID) bool
	// Record writes a packet in the same transaction as a change of the roster;
	// default: none.
	Record func(tx *store.Tx, kind string, node capabilities.NodeID, body any) error
	// Head returns the signed head of the gateway's ledger for nodes to keep; default:
	// none.
	Head func() *wire.Head
	// OnNodeHead takes the signed head of a node's own log, with the key it said
	// hello with; default: dropped. It must not block.
	OnNodeHead func(node capabilities.NodeID, key ed25519.PublicKey, head wire.Head)
	// Origins returns where the gateway serves its own pages, for nodes to keep calls from;
	// wire.MaxOrigins at most. Default: none.
	Origins func() []string
	// Others returns the site's other gateways, each by its addresses, for nodes to go to when they
	// connect anew. Default: none.
	Others func() [][]string
	// Stop returns the site's stop switch, for hellos; default: never stopped.
	Stop func() (epoch uint64, on bool)
	// OnStop is told what each node says of its own stop switch, with locks held:
	// it must not block and call nothing of Nodes; default: nobody.
	OnStop func(node capabilities.NodeID, epoch uint64, on bool)
	// Mark is of which generation of its site this gateway is; default: its site was never restored.
	Mark pairing.Mark
	// OnSuperseded is told that a node has met a later generation of the site, which its proof
	// shows; such a node is turned away. It must not block. Default: nobody.
	OnSuperseded func(node capabilities.NodeID, later pairing.Mark)
	// OnVerdict judges what the person at a node's device answered there, and returns why it does
	// not count; default: nothing does.
	OnVerdict func(capabilities.NodeID, wire.Verdict) error
	// Heartbeat is how often nodes report; default 10 s. A node that is silent for
	// three of them is disconnected.
	Heartbeat time.Duration
	// MaxNodes bounds the roster's pending and approved nodes; default 20,000.
	MaxNodes int
	// MaxPending bounds those that wait for approval; default 256.
	MaxPending int
	// MaxUnknown bounds connections that have not yet said a valid hello, and as
	// many again that have not yet made a valid offer; default 512.
	MaxUnknown int
	Now        func() time.Time // default time.Now
	Log        *slog.Logger     // default: discards
}

const (
	// helloTimeout bounds everything between a connection and its hello.
	helloTimeout = 10 * time.Second
	writeTimeout = 5 * time.Second
	// handshakeRate is how many new connections a second need no address check
	// (QUIC Retry) first; above it a flood from forged addresses costs no crypto.
	handshakeRate = 200
)

// Nodes is the roster and its live connections. All methods are safe for
// concurrent use.
type Nodes struct {
	opts    Options
	log     *slog.Logger
	gateway pairing.GatewayID
	leaf    leafCache

	changing  sync.Mutex                   // one change of roster or invitations at a time
	unwritten map[capabilities.NodeID]bool // revoked here, not yet on disk; guarded by changing

	mu       sync.RWMutex
	roster   map[capabilities.NodeID]*record // records are replaced, never changed
	byKey    map[string]capabilities.NodeID  // current and next keys of pending and approved nodes; the last of others
	sessions map[capabilities.NodeID]*session
	// elsewhere are nodes that other gateways hold, and places up to where their rows were read.
	elsewhere map[capabilities.NodeID]*session
	places    int64
	presence  map[capabilities.NodeID]presence // what a node said last; outlives its session
	waiting   map[capabilities.NodeID]*waiter  // pending devices that are connected
	shared    map[[32]byte]readinessSet        // equal readiness is held once
	lists     map[string]*sharedLists          // and so are equal lists
	changed   chan struct{}
	obeyed    chan struct{}                // closed when a node says what it obeys of the site's stop switch
	nudging   bool                         // changed is about to be closed for that
	snapshot  atomic.Pointer[[]route.Node] // nil: to be built anew

	sequence atomic.Uint64 // last ticket's
	epochs   atomic.Uint64 // last connection's
	unknown  chan struct{} // slots for devices that are nobody yet
	arriving chan struct{} // slots for nodes that have not said hello yet

	listenMu  sync.Mutex
	udp       net.PacketConn
	transport *quic.Transport
	listener  *quic.Listener
	streams   *streams
	peers     *peers // nil: this gateway serves alone
	away      atomic.Bool
	words     map[string]heeded
	known     map[string]string // where the other gateways were reached last
	closed    bool
}

// New makes Nodes; it opens and starts nothing.
func New(o Options) (*Nodes, error) {
	if o.Store == nil || o.Site == nil || len(o.Key) != ed25519.PrivateKeySize {
		return nil, errors.New("nodes: Store, Site and Key are required")
	}
	if o.Addr == "" {
		o.Addr = ":7443"
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 10 * time.Second
	}
	if o.MaxNodes == 0 {
		o.MaxNodes = 20_000
	}
	if o.MaxPending == 0 {
		o.MaxPending = 256
	}
	if o.MaxUnknown == 0 {
		o.MaxUnknown = 512
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.NodeID, any) error { return nil }
	}
	if o.Head == nil {
		o.Head = func() *wire.Head { return nil }
	}
	if o.OnNodeHead == nil {
		o.OnNodeHead = func(capabilities.NodeID, ed25519.PublicKey, wire.Head) {}
	}
	if o.Origins == nil {
		o.Origins = func() []string { return nil }
	}
	if o.Others == nil {
		o.Others = func() [][]string { return nil }
	}
	if o.Stop == nil {
		o.Stop = func() (uint64, bool) { return 0, false }
	}
	if o.OnStop == nil {
		o.OnStop = func(capabilities.NodeID, uint64, bool) {}
	}
	if o.OnSuperseded == nil {
		o.OnSuperseded = func(capabilities.NodeID, pairing.Mark) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	n := &Nodes{
		opts: o, log: o.Log, gateway: pairing.GatewayIDOf(o.Key.Public().(ed25519.PublicKey)),
		roster: map[capabilities.NodeID]*record{}, byKey: map[string]capabilities.NodeID{},
		sessions: map[capabilities.NodeID]*session{}, elsewhere: map[capabilities.NodeID]*session{}, presence: map[capabilities.NodeID]presence{},
		waiting: map[capabilities.NodeID]*waiter{}, shared: map[[32]byte]readinessSet{}, lists: map[string]*sharedLists{},
		changed: make(chan struct{}), obeyed: make(chan struct{}), unknown: make(chan struct{}, o.MaxUnknown),
		arriving: make(chan struct{}, o.MaxUnknown), unwritten: map[capabilities.NodeID]bool{},
	}
	if o.Advertise == nil {
		n.opts.Advertise = n.reachable
	}
	// Both grow over restarts without being stored: a clock that was set back by
	// more than the gateway was down for would only make nodes refuse tickets
	// until it has caught up, never run one twice.
	n.sequence.Store(uint64(o.Now().UnixMicro()))
	n.epochs.Store(uint64(o.Now().UnixMicro()))
	return n, nil
}

// GatewayID returns this gateway's ID.
func (n *Nodes) GatewayID() pairing.GatewayID { return n.gateway }

// Listen reads the roster and opens the ports. It returns the address, which matters when the
// port was 0. Run calls it if nobody did.
func (n *Nodes) Listen(ctx context.Context) (net.Addr, error) {
	n.listenMu.Lock()
	defer n.listenMu.Unlock()
	if n.closed {
		return nil, net.ErrClosed
	}
	if n.listener != nil {
		return n.udp.LocalAddr(), nil
	}
	if err := n.load(ctx); err != nil {
		return nil, err
	}
	udp, streams, err := n.listenBoth(ctx)
	if err != nil {
		return nil, err
	}
	// The same key after a restart: a node whose packets meet a gateway that has
	// forgotten the connection learns it at once (RFC 9000 10.3).
	h := hmac.New(sha256.New, n.opts.Key.Seed())
	h.Write([]byte("handrail stateless reset"))
	resetKey := quic.StatelessResetKey(h.Sum(nil))
	calm := rate.NewLimiter(handshakeRate, 2*handshakeRate)
	transport := &quic.Transport{
		Conn:                udp,
		StatelessResetKey:   &resetKey,
		VerifySourceAddress: func(net.Addr) bool { return !calm.Allow() },
	}
	listener, err := transport.Listen(n.tlsConfig(), n.quicConfig())
	if err != nil {
		_ = udp.Close()
		_ = streams.close()
		return nil, err
	}
	n.udp, n.transport, n.listener, n.streams = udp, transport, listener, streams
	return udp.LocalAddr(), nil
}

// listenBoth opens the UDP port and the TCP port of the same number. Where the system chooses the
// number, it chooses again if that one is taken of TCP's.
func (n *Nodes) listenBoth(ctx context.Context) (net.PacketConn, *streams, error) {
	for again := freePortTries; ; again-- {
		udp, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", n.opts.Addr)
		if err != nil {
			return nil, nil, err
		}
		s, err := n.listenStreams(ctx, udp.LocalAddr())
		if err != nil {
			_ = udp.Close()
			return nil, nil, err
		}
		if _, port, _ := net.SplitHostPort(n.opts.Addr); port != "0" || s.tcp != nil || n.opts.NoTCP || again == 0 {
			return udp, s, nil
		}
		_ = s.close()
		_ = udp.Close()
	}
}

const freePortTries = 8

func (n *Nodes) quicConfig() *quic.Config {
	return &quic.Config{
		MaxIdleTimeout:        3 * n.opts.Heartbeat,
		HandshakeIdleTimeout:  helloTimeout,
		MaxIncomingStreams:    2, // a node opens its control stream, nothing else
		MaxIncomingUniStreams: -1,
		Allow0RTT:             false, // replays must not reach us (hop 8 of docs/architecture.md)
	}
}

// Run serves nodes until ctx ends, then closes every connection and waits for
// its goroutines.
func (n *Nodes) Run(ctx context.Context) error {
	addr, err := n.Listen(ctx)
	if err != nil {
		return err
	}
	defer n.Close()
	n.log.Info("nodes.listening", "addr", addr.String(), "site", n.opts.Site.ID(), "gateway", n.gateway)
	var served sync.WaitGroup
	defer served.Wait()
	defer n.disconnectAll()
	serve := func(conn *quic.Conn) {
		served.Add(1)
		go n.serve(ctx, conn, served.Done)
	}
	served.Go(func() { n.acceptStreams(ctx, n.streams, serve) })
	if n.streams.tcp != nil {
		served.Go(func() { n.acceptTCP(n.streams) })
		defer n.streams.tcp.Close() // before the wait for who accepts there
	}
	if n.peers != nil {
		peering, stop := context.WithCancel(ctx)
		defer stop()
		served.Go(func() { n.peers.run(peering) })
	}
	for {
		// Nothing but accepting happens here: quic-go refuses connections whose
		// client saw the dial succeed when 32 of them wait.
		conn, err := n.listener.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, quic.ErrServerClosed) { // Close was called
				return nil
			}
			return err
		}
		serve(conn)
	}
}

// Close closes the port and every connection. Idempotent.
func (n *Nodes) Close() error {
	n.listenMu.Lock()
	defer n.listenMu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	n.disconnectAll()
	if n.peers != nil {
		n.peers.close()
	}
	if n.listener == nil {
		return nil
	}
	_ = n.listener.Close()
	return errors.Join(n.streams.close(), n.transport.Close(), n.udp.Close())
}

func (n *Nodes) disconnectAll() {
	n.mu.RLock()
	conns := make([]*quic.Conn, 0, len(n.sessions)+len(n.waiting))
	for _, s := range n.sessions {
		conns = append(conns, s.conn)
	}
	for _, w := range n.waiting {
		conns = append(conns, w.conn)
	}
	n.mu.RUnlock()
	for _, c := range conns {
		_ = c.CloseWithError(quic.ApplicationErrorCode(wire.CloseDone), "")
	}
}

// serve takes one connection from its first stream to its end, and then calls ended;
// a node's goes on being listened to when serve has returned. It holds a slot until
// the connection is somebody's. Strangers have slots of their own: whoever reaches the
// port can fill them, and nodes must still come back.
func (n *Nodes) serve(ctx context.Context, conn *quic.Conn, ended func()) {
	stop := context.AfterFunc(ctx, func() { _ = conn.CloseWithError(quic.ApplicationErrorCode(wire.CloseDone), "") })
	over := func() {
		stop()
		ended()
	}
	listening := false
	defer func() {
		if !listening {
			over()
		}
	}()

	peer, err := n.opts.Site.VerifyNode(conn.ConnectionState().TLS.PeerCertificates, n.opts.Now())
	if err != nil { // the TLS handshake checked the same a moment ago
		closeWith(conn, wire.CloseNotInRoster)
		return
	}
	slots := n.arriving
	if peer.Joining {
		slots = n.unknown
	}
	select {
	case slots <- struct{}{}:
	default:
		closeWith(conn, wire.CloseOverloaded)
		return
	}
	held := true
	known := func() {
		if held {
			held = false
			<-slots
		}
	}
	defer known()
	code := wire.CloseDone
	if peer.Joining {
		code = n.join(conn, peer, known)
	} else {
		listening, code = n.attend(conn, peer, known, over)
	}
	if !listening {
		closeWith(conn, code)
	}
}

func closeWith(conn *quic.Conn, code wire.CloseCode) {
	_ = conn.CloseWithError(quic.ApplicationErrorCode(code), "")
}

// notify tells everyone who watches that the snapshot changed. Called with mu
// held for writing.
func (n *Nodes) notifyLocked() {
	n.snapshot.Store(nil)
	close(n.changed)
	n.changed = make(chan struct{})
}

// Nudge closes Changed for a reason of the gateway's: another policy, say.
func (n *Nodes) Nudge() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notifyLocked()
}

// Changed is closed at the next change of the roster or of a node's presence; ask
// again for the one after.
func (n *Nodes) Changed() <-chan struct{} {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.changed
}
