package link

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// Sink takes what a call returns: progress while it runs, one answer at its end. Safe for
// concurrent use. A message that cannot be delivered is dropped: the journal has it.
type Sink interface {
	Progress(p wire.Progress)
	// Accept sends the node's key for a secret and waits for what the gateway seals
	// to it. At most once, before anything else.
	Accept(ctx context.Context, a wire.Accept) (*wire.Sealed, error)
	// Step asks the gateway for a step of a call whose ticket says Steps, and waits for
	// its order; it numbers the steps; StepEnded says how one that was ordered ended. Before Answer.
	Step(ctx context.Context, m wire.Step) (*wire.StepOrder, error)
	StepEnded(m wire.StepEnd)
	// Elicit puts a form to a person for a call whose ticket says Elicits, and waits for their
	// answer; it numbers them. Before Answer.
	Elicit(ctx context.Context, m wire.Elicit) (*wire.Elicited, error)
	// AskHost asks about a host for a call whose ticket says AsksHosts, and waits for the answer; it
	// numbers them with the forms.
	AskHost(ctx context.Context, m wire.HostAsk) (*wire.HostAnswer, error)
	// Answer sends the end. blobs are the bytes that a.Blobs announces, in order.
	Answer(a wire.Answer, blobs [][]byte)
}

// Options of New; required unless a default is named.
type Options struct {
	Dir string // where Join keeps the identity
	// Serve carries out a ticket and answers sink once before it returns. Its
	// context ends when the gateway resets the call or puts the node out, and when
	// Run ends; not when the connection is lost.
	Serve func(ctx context.Context, t *wire.Ticket, sink Sink)
	// Attached reports whether a tool's calls end with the connection that they came
	// by; default: none does.
	Attached func(capabilities.ToolID) bool
	// Journal tells what became of calls, one state for each in the same order.
	Journal func(ctx context.Context, ask *wire.JournalAsk) []wire.JournalState
	// Scene says what a call would meet here, for the person who is asked about it;
	// default: nothing is said.
	Scene func(ctx context.Context, ask *wire.SceneAsk) wire.Scene
	// OnQuestions takes what the person at the device may answer now, each time anew; none
	// once the connection is over. OnVerdictTaken takes what became of an answer. They must
	// not block. Default: nobody is asked here.
	OnQuestions    func([]wire.Question)
	OnVerdictTaken func(wire.VerdictTaken)
	// Artifacts are what calls left for the gateway to fetch; default: none.
	Artifacts Artifacts
	// Hello returns what the hello says beside identity and version: CatalogHash,
	// Agent, Platform, Arch, Host, LogKey, LogHead.
	Hello func() wire.Hello
	// Readiness returns the present truth of every capability. It is asked after each
	// hello, when ReadinessChanged fires, and every few seconds; only changes are
	// sent.
	Readiness        func(ctx context.Context) []capabilities.Readiness
	ReadinessChanged <-chan struct{} // default: never
	// Stop returns both stop switches; StopChanged is closed at their next change (as
	// of guard.StopSwitch). Default: never stopped.
	Stop        func() wire.Stop
	StopChanged func() <-chan struct{}
	// OnStop takes the site's stop switch as the gateway sends it, at each connection before any
	// ticket and at each change; the gateway is told that it is obeyed once OnStop returns. Calls
	// may be concurrent. Default: dropped.
	OnStop func(epoch uint64, on bool)
	// OnAllow, OnLaneClosed, OnSecretsDone and OnGatewayHead take what else the gateway says.
	// Default: dropped. They must not block.
	OnAllow       func(allow []string)
	OnLaneClosed  func(lane capabilities.LaneID)
	OnSecretsDone func(lane capabilities.LaneID)
	// OnOrigins is told, before any ticket of a connection arrives, where the gateway serves
	// its own pages; none: it does not say. Default: dropped.
	OnOrigins     func(origins []string)
	OnGatewayHead func(gateway ed25519.PublicKey, head wire.Head)
	// OnRestored is told, before what else a gateway says, that its site was restored from a backup
	// since this node met it: what it wrote down after that backup is gone. Default: dropped.
	OnRestored func(generation uint64)
	// OnKey is told, before each hello, the key this node shows from now on: it
	// rotates.
	OnKey func(key ed25519.PrivateKey)
	// OnFloor is told, before any ticket of a connection arrives, that sequences of
	// this connection are higher.
	OnFloor func(sequence uint64)
	// Head returns the signed head of the node's own log for heartbeats; default none.
	Head func() *wire.Head
	// Pools returns how the calls of each class fare, for heartbeats; default: nothing is said.
	Pools func() []wire.Pool
	// OnState is told each change of the connection; default: nobody.
	OnState func(State)
	// Addrs replaces the addresses the node joined with; default: those.
	Addrs []string
	// Proxy is the HTTP proxy by which streams go; default: what the environment says. QUIC goes by
	// none.
	Proxy Proxy
	// Transports are those that are tried; default: all.
	Transports []tunnel.Transport
	// RetryQUIC is how often a node that came by another way tries QUIC again; default 5 min.
	RetryQUIC time.Duration
	// Profile is for a node that still waits for its approval.
	Profile pairing.Profile
	// RotateBefore is how long before the end of its certificate the node asks for a
	// new key; default half of pairing.LeafLifetime.
	RotateBefore time.Duration
	// ReadinessEvery is how often Readiness is asked without being told; default 5 s.
	ReadinessEvery time.Duration
	Backoff        Backoff
	Log            *slog.Logger // default: discards
}

// State is how the connection is.
type State struct {
	Connected bool
	Pending   bool // waiting for a person to approve
	Node      capabilities.NodeID
	Gateway   string
	Program   string           // version of the gateway's program; "": it does not say
	Over      tunnel.Transport // that carries the connection
	Addr      string           // where the gateway was found
	Err       error            // why not connected; its code is the gateway's if it gave one
}

// Link keeps a node connected to its gateway.
type Link struct {
	opts    Options
	log     *slog.Logger
	started time.Time

	id        *Identity // owned by Run, as are rotatedAt and dialer
	rotatedAt time.Time
	dialer    *dialer

	active atomic.Int32   // calls that run
	calls  sync.WaitGroup // they may outlive their connection
	ended  atomic.Int64   // when the last of them ended, since started
	leave  chan struct{}  // closed: Run is to end once no call runs
	left   sync.Once
	quiet  time.Duration // for how long none must have run; read once leave is closed

	current atomic.Pointer[session] // nil: not connected
}

// New makes a Link; it reads nothing and starts nothing.
func New(o Options) (*Link, error) {
	if o.Attached == nil {
		o.Attached = func(capabilities.ToolID) bool { return false }
	}
	if o.Dir == "" || o.Serve == nil || o.Journal == nil || o.Hello == nil || o.Readiness == nil {
		return nil, errors.New("link: Dir, Serve, Journal, Hello and Readiness are required")
	}
	if o.Artifacts == nil {
		o.Artifacts = noArtifacts{}
	}
	if o.Stop == nil {
		o.Stop = func() wire.Stop { return wire.Stop{} }
	}
	if o.StopChanged == nil {
		o.StopChanged = func() <-chan struct{} { return nil }
	}
	if o.OnStop == nil {
		o.OnStop = func(uint64, bool) {}
	}
	if o.OnAllow == nil {
		o.OnAllow = func([]string) {}
	}
	if o.OnLaneClosed == nil {
		o.OnLaneClosed = func(capabilities.LaneID) {}
	}
	if o.OnOrigins == nil {
		o.OnOrigins = func([]string) {}
	}
	if o.OnSecretsDone == nil {
		o.OnSecretsDone = func(capabilities.LaneID) {}
	}
	if o.OnKey == nil {
		o.OnKey = func(ed25519.PrivateKey) {}
	}
	if o.OnGatewayHead == nil {
		o.OnGatewayHead = func(ed25519.PublicKey, wire.Head) {}
	}
	if o.OnRestored == nil {
		o.OnRestored = func(uint64) {}
	}
	if o.OnFloor == nil {
		o.OnFloor = func(uint64) {}
	}
	if o.Head == nil {
		o.Head = func() *wire.Head { return nil }
	}
	if o.OnState == nil {
		o.OnState = func(State) {}
	}
	if o.RotateBefore == 0 {
		o.RotateBefore = pairing.LeafLifetime / 2
	}
	if o.RetryQUIC == 0 {
		o.RetryQUIC = 5 * time.Minute
	}
	if o.ReadinessEvery == 0 {
		o.ReadinessEvery = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Link{opts: o, log: o.Log, started: time.Now(), dialer: newDialer(o.Proxy, o.Transports), leave: make(chan struct{})}, nil
}

// Run keeps the connection until ctx ends (nil), or until only a person can help:
// the error then has the code node_revoked, pairing_denied, node_not_paired,
// site_mismatch or version_skew. It waits for the calls it started.
func (l *Link) Run(ctx context.Context) error {
	id, err := LoadIdentity(l.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return capabilities.Errorf(capabilities.CodeNodeNotPaired, "This device has not joined a site.").
			WithAction(capabilities.Action{Key: capabilities.ActionJoinSite}, "Have it paired.")
	}
	if err != nil {
		return err
	}
	if len(l.opts.Addrs) > 0 {
		id.Addrs, id.Gateways = l.opts.Addrs, nil
	}
	l.id = id
	runCtx, cancel := context.WithCancel(ctx)
	defer l.calls.Wait()
	defer cancel()

	wait := l.opts.Backoff.start()
	showKey := false // with our own signature, because the certificate was refused
	for {
		began := time.Now()
		ended := l.once(runCtx, wait, showKey)
		if ctx.Err() != nil {
			return nil
		}
		if l.leaves() {
			l.calls.Wait() // what came in the last moment is carried out
			return nil
		}
		if ended == nil {
			continue // rotated or approved: again at once
		}
		told := explain(ended)
		l.opts.OnState(State{Node: id.Node, Err: told})
		if permanent(ended) {
			return told
		}
		code, closed := refusal(ended)
		if closed && code == wire.CloseTakenOver {
			// Two processes with one identity would throw each other out forever.
			l.log.Warn("node.taken_over", "node", id.Node, "hint", "the same identity is used twice")
			wait.slow()
		}
		if capabilities.CodeOf(told) == capabilities.CodeSiteSuperseded {
			l.log.Error("node.site_superseded", "node", id.Node, "generation", id.Mark.Generation, "hint", "an older copy of the site answers here")
			wait.slow() // its later copy may come back at this address
		}
		showKey = badCertificate(ended)
		l.log.Warn("node.disconnected", "node", id.Node, "after", time.Since(began).Round(time.Millisecond), "err", ended)
		if !wait.pause(runCtx) {
			return nil
		}
	}
}

// Leave has Run end (nil) once no call has run for quiet, without cutting one off. Only the first
// call counts. A node that is not connected ends before its next attempt.
func (l *Link) Leave(quiet time.Duration) {
	l.left.Do(func() {
		l.quiet = quiet
		close(l.leave)
	})
}

func (l *Link) leaves() bool {
	select {
	case <-l.leave:
		return true
	default:
		return false
	}
}

// idle reports whether no call has run for that long.
func (l *Link) idle(quiet time.Duration) bool {
	return l.active.Load() == 0 && time.Since(l.started)-time.Duration(l.ended.Load()) >= quiet
}

// once makes one connection and serves it to its end. nil means that the next
// should follow at once.
func (l *Link) once(ctx context.Context, wait *backoff, showKey bool) error {
	if l.id.Pending() || showKey || time.Now().After(l.id.Cert.NotAfter) {
		j := &joining{dialer: l.dialer, id: l.id, dir: l.opts.Dir, profile: l.opts.Profile, step: func(s JoinStep) {
			l.opts.OnState(State{Node: s.Node, Pending: s.State == pairing.StatePending})
		}}
		return j.attempt(ctx)
	}
	to, err := l.dialer.dial(ctx, l.addrs(), l.id.Site, l.id.Key, l.id.Cert)
	if err != nil {
		return err
	}
	defer to.close(wire.CloseDone)
	s, err := l.hello(ctx, to.Conn)
	if err != nil {
		return connError(to.Conn, err)
	}
	s.way = to.way
	if len(l.opts.Addrs) == 0 {
		l.told(s.ack.Gateways)
	}
	wait.reset()
	l.log.Info("node.connected", "node", l.id.Node, "gateway", s.ack.Gateway, "transport", to.over, "remote", to.RemoteAddr().String(),
		"epoch", s.ack.Epoch)
	l.opts.OnState(State{Connected: true, Node: l.id.Node, Gateway: s.ack.Gateway, Program: s.ack.Program, Over: to.over, Addr: to.addr})
	l.current.Store(s)
	defer func() {
		l.current.Store(nil)
		if l.opts.OnQuestions != nil {
			l.opts.OnQuestions(nil)
		}
	}()
	return s.run(ctx)
}

// Answer sends the person's answer to a question that OnQuestions was given.
// CodeNodeDisconnected if it cannot be sent now.
func (l *Link) Answer(v wire.Verdict) error {
	s := l.current.Load()
	if s == nil {
		return &capabilities.Error{Code: capabilities.CodeNodeDisconnected}
	}
	if err := s.send(&v); err != nil {
		return capabilities.Wrap(capabilities.CodeNodeDisconnected, err, "")
	}
	return nil
}

// hello opens the control stream. Only its acknowledgement makes a connection: the
// gateway may have refused it after the dial succeeded.
func (l *Link) hello(ctx context.Context, conn *quic.Conn) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	control, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { closeWith(conn, wire.CloseDone) })
	defer stop()
	l.opts.OnKey(l.id.Key)
	h := l.opts.Hello()
	h.Version, h.MinVersion, h.Node = wire.Version, wire.MinVersion, l.id.Node
	h.Steps, h.TakesDone, h.Elicits, h.AsksHosts, h.Traces, h.Asks = true, true, true, true, true, l.opts.OnQuestions != nil
	h.Addrs = deviceAddrs()
	h.Generation, h.GenerationProof = l.id.Mark.Generation, l.id.Mark.Proof
	stopped := l.opts.Stop()
	h.StopEpoch, h.Stopped, h.SiteEpoch, h.SiteStopped = stopped.Epoch, stopped.On, stopped.SiteEpoch, stopped.SiteOn
	if err := wire.Write(control, &h); err != nil {
		return nil, err
	}
	s := &session{l: l, conn: conn, control: control, reader: wire.NewReader(control, wire.KindHelloAck), told: stopped, addrs: h.Addrs}
	m, err := s.reader.Next()
	if err != nil {
		return nil, err
	}
	s.ack = m.(*wire.HelloAck)
	if s.ack.Version < wire.MinVersion || s.ack.Version > wire.Version {
		return nil, capabilities.Errorf(capabilities.CodeVersionSkew, "the gateway wants protocol version %d", s.ack.Version)
	}
	if err := l.heedMark(conn, pairing.Mark{Generation: s.ack.Generation, Proof: s.ack.GenerationProof}); err != nil {
		return nil, err
	}
	if s.ack.CatalogSkew {
		l.log.Warn("node.catalog_skew", "node", l.id.Node, "hint", "node and gateway are of different builds; calls that differ are refused")
	}
	l.opts.OnStop(s.ack.SiteEpoch, s.ack.SiteStopped)
	l.opts.OnFloor(s.ack.SequenceFloor)
	l.opts.OnAllow(s.ack.Allow)
	l.opts.OnOrigins(s.ack.Origins)
	if s.ack.GatewayHead != nil {
		s.gatewayHead(*s.ack.GatewayHead)
	}
	return s, nil
}

// rotateAgain is the least time between two rotations: a gateway whose clock is far
// off would make every certificate look old.
const rotateAgain = time.Hour

// rotation is a new key on its way.
type rotation struct{ key ed25519.PrivateKey }

// beginRotation makes the new key, durable before the gateway hears of it.
func (l *Link) beginRotation(conn *quic.Conn) (*rotation, *wire.Rotate, error) {
	key, _, err := pairing.LoadOrCreateKey(filepath.Join(l.opts.Dir, nextKeyFile))
	if err != nil {
		return nil, nil, err
	}
	state := conn.ConnectionState().TLS
	binding, err := state.ExportKeyingMaterial(pairing.ExporterLabel, nil, 32)
	if err != nil {
		return nil, nil, err
	}
	return &rotation{key}, &wire.Rotate{
		PublicKey: key.Public().(ed25519.PublicKey),
		Proof:     ed25519.Sign(key, pairing.RotationStatement(l.id.Site, l.id.Node, binding)),
	}, nil
}

// finish takes the new key and certificate over.
func (r *rotation) finish(l *Link, der []byte) error {
	var cert *x509.Certificate
	cert, err := certificateFor(der, r.key, l.id.Site)
	if err != nil {
		return err
	}
	next := *l.id
	next.Key, next.Cert = r.key, cert
	if err := next.save(l.opts.Dir); err != nil {
		return err
	}
	*l.id = next
	l.log.Info("node.key_rotated", "node", l.id.Node, "key", fingerprintOf(r.key))
	return nil
}
