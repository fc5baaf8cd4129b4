package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Options of New; required unless a default is named.
type Options struct {
	Store *store.Store
	Site  capabilities.SiteID
	// Record writes a packet in the same transaction as a change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	// Listen is the TCP address that satellites connect to, once one is invited.
	Listen string
	// Advertise returns the addresses that pastes carry, given the one that is listened at.
	// Default: that one.
	Advertise func(listening string) []string
	// Certificate returns the certificate of the embedded server and its SHA-256 in hex.
	Certificate func() (tls.Certificate, string, error)
	// URL is a server elsewhere, in place of the embedded one; default: none. The gateway's keys
	// for it are made in Dir.
	URL string
	TLS *tls.Config // for that one, with the client's certificate
	Dir string
	// Approved returns the hash of a tool's words that a person approved; false: nobody did.
	Approved func(capabilities.CapabilityID) (hash string, ok bool)
	// Interchangeable reports whether the record of a service says that any of several satellites
	// serves a call; default: of none.
	Interchangeable func(service string) bool
	// Attached is told what a satellite says of its tools, each time that it says something else.
	Attached func(ctx context.Context, id capabilities.NodeID, by capabilities.PrincipalID, m *tools.ToolManifest) error
	// Free refuses the name of a service that nobody may take now.
	Free func(name string) error
	// Worker returns the ID of the worker on another machine that has an Ed25519 public key and is
	// let in; false: nobody has. Plumb answers what such a worker asks. Default: no worker comes in.
	Worker func(ctx context.Context, key []byte) (id string, ok bool)
	Plumb  func(ctx context.Context, a Asked) Answered
	// Changed is told that what Snapshot returns is another now. It must not block.
	Changed func()
	// Peers are the other gateways of the site; default: there are none. Rostered is told of which
	// services another gateway let satellites in, or put them out. It must not block.
	Peers    Peers
	Rostered func(services map[string]bool)
	Now      func() time.Time
	Log      *slog.Logger // default: discards
}

// Bus is the satellites of a gateway. All methods are safe for concurrent use.
type Bus struct {
	opts   Options
	own    nkeys.KeyPair // the gateway's, for its connection
	id     string        // public key of own
	issuer nkeys.KeyPair // of who may connect to a server elsewhere

	starting sync.Mutex // above what follows: one start
	srv      *server.Server
	conn     *nats.Conn
	sum      string // of the certificate
	//lint:ignore containedctx the life of the bus
	running context.Context
	stop    context.CancelFunc
	works   sync.WaitGroup

	strangers atomic.Pointer[strangers] // at srv
	news      chan struct{}             // the peers are to hear how satellites are
	askers    askers

	changing sync.Mutex // one change of the roster at a time; taken before mu

	mu        sync.Mutex
	roster    map[capabilities.NodeID]*satellite
	byKey     map[string]*satellite // by public nkey
	invites   map[string]*invite    // by public nkey
	refused   map[string]uint64     // heartbeats, by why
	manifests map[string]*said      // what satellites say of their tools, by hash
	pending   map[string]*exchange  // calls under way, by the subject of their replies
	far       map[capabilities.NodeID]*far
	snapshot  []route.Node // nil: to be made anew
	turn      uint64       // of Order, so that equals take turns
	closed    bool
}

// New reads the roster. It starts nothing.
func New(ctx context.Context, o Options) (*Bus, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	if o.Advertise == nil {
		o.Advertise = func(at string) []string { return []string{at} }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Free == nil {
		o.Free = func(string) error { return nil }
	}
	b := &Bus{
		opts: o, roster: map[capabilities.NodeID]*satellite{}, byKey: map[string]*satellite{}, invites: map[string]*invite{},
		refused: map[string]uint64{}, manifests: map[string]*said{}, pending: map[string]*exchange{},
		far: map[capabilities.NodeID]*far{}, news: make(chan struct{}, 1),
	}
	if b.opts.Rostered == nil {
		b.opts.Rostered = func(map[string]bool) {}
	}
	b.running, b.stop = context.WithCancel(context.Background())
	if err := b.load(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// wanted reports whether somebody is in, or may come in.
func (b *Bus) wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.roster {
		if s.in() {
			return true
		}
	}
	for _, i := range b.invites {
		if i.open(b.opts.Now()) {
			return true
		}
	}
	return false
}

// Start starts the bus where somebody is in or may come in; for before Run. Idempotent.
func (b *Bus) Start(ctx context.Context) error {
	if !b.wanted() {
		return nil
	}
	return b.start(ctx)
}

// Ensure starts the bus for workers, whether or not a satellite is in. Idempotent.
func (b *Bus) Ensure(ctx context.Context) error { return b.start(ctx) }

// start has the server and the gateway's connection to it. Idempotent.
func (b *Bus) start(ctx context.Context) (err error) {
	b.starting.Lock()
	defer b.starting.Unlock()
	if b.conn != nil {
		return nil
	}
	if b.running.Err() != nil {
		return capabilities.Errorf(capabilities.CodeCancelled, "The gateway is ending.")
	}
	defer func() {
		if err != nil {
			b.end()
			err = capabilities.Wrap(capabilities.CodeInternal, err, "The bus cannot start: "+err.Error())
		}
	}()
	options := []nats.Option{
		nats.Name("gateway"), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond),
		nats.ReconnectJitter(200*time.Millisecond, 500*time.Millisecond),
		nats.ReconnectBufSize(-1), // a call is sent now or not at all
		// Our subscription of the whole plane is no hearer of our requests: where a satellite is
		// away the server says at once that nobody heard.
		nats.NoEcho(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { b.cut(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { b.opts.Log.Warn("bus.error", "err", err) }),
	}
	url := b.opts.URL
	if url == "" {
		if err := b.serve(); err != nil {
			return err
		}
		url = "nats://in-process"
		options = append(options, nats.InProcessServer(b.srv))
	} else if options, err = b.elsewhere(options); err != nil {
		return err
	}
	options = append(options, nats.Nkey(b.id, b.own.Sign))
	conn, err := nats.Connect(url, options...)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	b.conn = conn
	hear := func(subject string, f nats.MsgHandler) {
		if err != nil {
			return
		}
		var sub *nats.Subscription
		if sub, err = conn.Subscribe(subject, f); err == nil {
			err = sub.SetPendingLimits(maxWaiting, maxWaitingBytes)
		}
	}
	if b.opts.URL != "" {
		hear(authSubject, b.admits)
	}
	for _, subject := range remote.Discovery() {
		hear(subject, b.beat)
	}
	hear(remote.AllInboxes, b.reply)
	// Each is answered once, however many gateways of the site are on a server elsewhere.
	if err == nil {
		_, err = conn.QueueSubscribe(remote.AllJoins, "gateways", b.joining)
	}
	for _, subject := range remote.AllAsks("*") {
		if err == nil {
			_, err = conn.QueueSubscribe(subject, "gateways", b.asks)
		}
	}
	if err == nil {
		err = conn.FlushTimeout(5 * time.Second)
	}
	if err != nil {
		return err
	}
	b.works.Go(func() { b.watch(b.running) })
	b.opts.Log.Info("bus.started", "listening", b.listening(), "url", b.opts.URL)
	return nil
}

// Bounds of what waits to be read by the gateway; what comes beyond is dropped by the client.
const (
	maxWaiting      = 1 << 16
	maxWaitingBytes = 256 << 20
)

// Run keeps the bus until ctx ends.
func (b *Bus) Run(ctx context.Context) error {
	if b.opts.Peers != nil {
		b.spread(ctx)
	}
	<-ctx.Done()
	b.Close()
	return nil
}

// Close ends the bus: calls under way stay open for the next process. Idempotent.
func (b *Bus) Close() {
	b.stop()
	b.mu.Lock()
	b.closed = true
	for _, s := range b.roster {
		s.drop()
	}
	b.mu.Unlock()
	b.starting.Lock()
	b.end()
	b.starting.Unlock()
	b.works.Wait() // without starting: what is under way looks for the connection
}

// end closes connection and server, with starting held.
func (b *Bus) end() {
	if b.conn != nil {
		b.conn.Close()
	}
	if b.srv != nil {
		b.srv.Shutdown()
		b.srv.WaitForShutdown()
	}
	b.conn, b.srv = nil, nil
}

// link returns the connection to the bus; nil: there is none.
func (b *Bus) link() *nats.Conn {
	b.starting.Lock()
	defer b.starting.Unlock()
	return b.conn
}

// Listening is where satellites connect; "" before somebody was invited.
func (b *Bus) Listening() string {
	b.starting.Lock()
	defer b.starting.Unlock()
	return b.listening()
}

func (b *Bus) listening() string {
	if b.srv == nil || b.srv.Addr() == nil {
		return ""
	}
	return b.srv.Addr().String()
}

// changed has everybody look anew.
func (b *Bus) changed() {
	b.mu.Lock()
	b.snapshot = nil
	b.mu.Unlock()
	select {
	case b.news <- struct{}{}:
	default:
	}
	b.opts.Changed()
}

// Refresh is changed for those who know that a person decided about tools.
func (b *Bus) Refresh() { b.changed() }

var errClosed = errors.New("the bus is closed")
