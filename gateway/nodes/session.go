package nodes

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"maps"
	"net/netip"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/time/rate"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// readinessSet is what a node advertises; never changed once it is made, because
// nodes that advertise the same share one.
type readinessSet map[capabilities.CapabilityID]capabilities.Readiness

// presence is what a node said last. It outlives the session, so that a node that
// reconnects is there at once.
type presence struct {
	readiness readinessSet // nil: nothing said since the gateway started
	stopEpoch uint64
	stopped   bool
	site      siteStop // what the node obeys of the site's stop switch
	skew      bool
}

// session is one connected node.
type session struct {
	node  capabilities.NodeID
	conn  *quic.Conn
	epoch uint64
	floor uint64                      // tickets of this session have a higher sequence
	pools atomic.Pointer[[]wire.Pool] // as its last heartbeat had them; nil: none yet
	// stopEpoch is the node's, for tickets: written by the session's goroutine.
	stopEpoch atomic.Uint64
	steps     bool                         // the node asks for each step of a call
	elicits   bool                         // the node takes tickets whose calls ask people
	asksHosts bool                         // and those whose calls ask about hosts
	traces    bool                         // and those that say where they stand in a trace
	addrs     atomic.Pointer[[]netip.Addr] // its device's, as it says; shared, never changed
	takesDone bool                         // the node takes a person's word on secrets
	asks      bool                         // the node asks the person at its device
	recall    string                       // what its journal reaches back to

	asking sync.Mutex     // the order in which questions are told; taken before writing
	asked  wire.Questions // what the node was told last

	writing sync.Mutex
	control *quic.Stream
	acked   bool // the hello is acknowledged; nothing may be sent before

	frames *rate.Limiter // what the node may still say; of the session's goroutine

	place  atomic.Int64 // epoch of the node's place, where several gateways serve
	saving sync.Mutex   // one writing of the place at a time
	far    *farPlace    // another gateway has the connection; nil: it is conn
	moving bool         // it is sent to another gateway; guarded by peers.gate
}

func (n *Nodes) session(id capabilities.NodeID) *session {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.sessions[id]
}

// Holds reports whether a node is connected to this gateway, and not to another one of several.
func (n *Nodes) Holds(id capabilities.NodeID) bool { return n.session(id) != nil }

// reach is session, or what is known of a node that another gateway holds.
func (n *Nodes) reach(id capabilities.NodeID) *session {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if s := n.sessions[id]; s != nil {
		return s
	}
	return n.elsewhere[id]
}

// send writes one frame to the control stream.
func (s *session) send(m wire.Message) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if !s.acked {
		return nil // what the acknowledgement says is newer still
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return wire.Write(s.control, m)
}

// greeted reports whether the hello was acknowledged.
func (s *session) greeted() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.acked
}

// acknowledge sends the first frame of the gateway. It is made under the lock, so
// that a change that is told to every session (a stop, an allowlist) is either in it
// or follows it.
func (s *session) acknowledge(make func() *wire.HelloAck) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.acked = true
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return wire.Write(s.control, make())
}

// drop closes what a node has open.
func (n *Nodes) drop(id capabilities.NodeID, code wire.CloseCode) {
	n.mu.RLock()
	s, w := n.sessions[id], n.waiting[id]
	n.mu.RUnlock()
	if s != nil {
		closeWith(s.conn, code)
	}
	if w != nil {
		closeWith(w.conn, code)
	}
}

// attend greets a node with a certificate of the site and has it listened to, which
// ends the connection and calls over. Without a session it says what to close with.
func (n *Nodes) attend(conn *quic.Conn, peer pairing.Peer, known, over func()) (listening bool, code wire.CloseCode) {
	g, code := n.greet(conn, peer, known)
	if g.session == nil {
		return false, code
	}
	g.over = over
	if code != wire.CloseDone {
		n.part(&g, code)
		return true, code
	}
	_ = g.session.control.SetReadDeadline(time.Time{})
	g.silence = time.AfterFunc(3*n.opts.Heartbeat, func() { _ = g.session.control.SetReadDeadline(time.Now()) })
	go n.listen(&g)
	return true, code
}

// part ends a session.
func (n *Nodes) part(g *greeting, code wire.CloseCode) {
	if g.silence != nil {
		g.silence.Stop()
	}
	closeWith(g.session.conn, code) // before exit: nothing may be sent on a session that is gone
	n.exit(g.session)
	g.over()
}

// greeting is what a hello led to.
type greeting struct {
	session *session // nil: turned away
	reader  *wire.Reader
	logKey  ed25519.PublicKey
	silence *time.Timer // ends the reading from a node that says nothing for too long
	over    func()
}

// greet reads the hello and acknowledges it, which makes the connection usable.
// With a session, a code other than CloseDone says why that ends at once.
func (n *Nodes) greet(conn *quic.Conn, peer pairing.Peer, known func()) (greeting, wire.CloseCode) {
	if code := n.standing(n.lookup(peer.Node), peer.Key); code != wire.CloseDone {
		return greeting{}, code
	}
	ctx, cancel := context.WithTimeout(conn.Context(), helloTimeout)
	control, err := conn.AcceptStream(ctx)
	cancel()
	if err != nil {
		return greeting{}, wire.CloseProtocol
	}
	reader := wire.NewReader(control, wire.KindHello)
	_ = control.SetReadDeadline(time.Now().Add(helloTimeout))
	m, err := reader.Next()
	if err != nil {
		return greeting{}, n.brokenBy(peer.Node, err)
	}
	hello := m.(*wire.Hello)
	if hello.Node != peer.Node {
		return greeting{}, wire.CloseProtocol
	}
	if hello.MinVersion > wire.Version || hello.Version < wire.MinVersion {
		return greeting{}, wire.CloseVersion
	}
	if later := (pairing.Mark{Generation: hello.Generation, Proof: hello.GenerationProof}); later.Generation > n.opts.Mark.Generation {
		if err := n.opts.Site.VerifyMark(later); err != nil {
			n.log.Warn("node.protocol", "node", peer.Node, "err", err)
			return greeting{}, wire.CloseProtocol
		}
		n.opts.OnSuperseded(peer.Node, later)
		return greeting{}, wire.CloseSuperseded
	}
	if err := n.recordHello(conn.Context(), peer, hello); err != nil {
		n.log.Error("node.hello", "node", peer.Node, "err", err)
		return greeting{}, wire.CloseInternal
	}
	s := &session{
		node: peer.Node, conn: conn, control: control, epoch: n.epochs.Add(1), floor: n.floor(), frames: newFrames(), steps: hello.Steps,
		elicits: hello.Elicits, asksHosts: hello.AsksHosts, takesDone: hello.TakesDone, asks: hello.Asks,
		recall: hello.Recall, traces: hello.Traces,
	}
	s.placed(hello.Addrs)
	if err := n.takePlace(conn.Context(), s, hello); err != nil {
		n.log.Error("node.place", "node", peer.Node, "err", err)
		return greeting{}, wire.CloseInternal
	}
	r, code := n.enter(s, peer.Key, hello)
	if r == nil {
		return greeting{}, code
	}
	known()
	reader.Accept(wire.KindHeartbeat, wire.KindReadiness, wire.KindStop, wire.KindRotate)
	if s.asks {
		reader.Accept(wire.KindHeartbeat, wire.KindReadiness, wire.KindStop, wire.KindRotate, wire.KindVerdict)
	}
	g := greeting{session: s, reader: reader, logKey: hello.LogKey}
	err = s.acknowledge(func() *wire.HelloAck {
		if now := n.lookup(s.node); now != nil {
			r = now
		}
		epoch, stopped := n.opts.Stop()
		return &wire.HelloAck{
			Version: min(hello.Version, wire.Version), Gateway: string(n.gateway), Epoch: s.epoch,
			HeartbeatMS: uint32(n.opts.Heartbeat.Milliseconds()), SequenceFloor: s.floor, GatewayHead: n.opts.Head(),
			Allow: r.allow, CatalogSkew: hello.CatalogHash != n.opts.CatalogHash, SiteEpoch: epoch, SiteStopped: stopped, Origins: n.opts.Origins(),
			Generation: n.opts.Mark.Generation, GenerationProof: n.opts.Mark.Proof, Gateways: n.gateways(),
			Program: n.opts.Version,
		}
	})
	if err != nil {
		return g, n.brokenBy(s.node, err)
	}
	n.log.Info("node.connected", "node", s.node, "transport", tunnel.Of(s.conn.RemoteAddr()), "remote", s.conn.RemoteAddr().String(),
		"epoch", s.epoch, "agent", hello.Agent)
	if hello.LogHead != nil {
		n.opts.OnNodeHead(s.node, hello.LogKey, *hello.LogHead)
	}
	return g, wire.CloseDone
}

// standing says whether the roster lets a node with that key in: CloseDone if so.
func (n *Nodes) standing(r *record, key ed25519.PublicKey) wire.CloseCode {
	switch {
	case r == nil:
		return wire.CloseNotInRoster
	case r.state == pairing.StateRevoked:
		return wire.CloseRevoked
	case r.state == pairing.StateDenied:
		return wire.CloseDenied
	case r.state != pairing.StateApproved:
		return wire.CloseNotInRoster
	case !key.Equal(r.key) && !key.Equal(r.nextKey):
		return wire.CloseStaleKey
	}
	return wire.CloseDone
}

// recordHello writes down what a hello changes: the first use of a rotated key ends
// the old one, and what the device is may be news. Most hellos change nothing.
func (n *Nodes) recordHello(ctx context.Context, peer pairing.Peer, hello *wire.Hello) error {
	r := n.lookup(peer.Node)
	if r == nil {
		return nil
	}
	rotated := r.nextKey != nil && peer.Key.Equal(r.nextKey)
	told := pairing.Profile{
		Label: r.profile.Label, Offers: r.profile.Offers,
		Host: short(hello.Host), Platform: short(hello.Platform), Arch: short(hello.Arch), Agent: short(hello.Agent),
	}
	same := told.Host == r.profile.Host && told.Platform == r.profile.Platform && told.Arch == r.profile.Arch && told.Agent == r.profile.Agent
	if !rotated && same {
		return nil
	}
	kind := ""
	var body any
	if rotated {
		kind, body = "node.key_rotated", packet.NodeKey{Key: pairing.Fingerprint(peer.Key), Old: pairing.Fingerprint(r.key)}
	}
	_, err := n.change(ctx, peer.Node, kind, body, func(r *record) error {
		r.profile = told
		if r.nextKey != nil && peer.Key.Equal(r.nextKey) {
			r.key, r.nextKey = r.nextKey, nil
		}
		return nil
	})
	return err
}

// enter makes s the node's session and ends the one before. The roster is looked
// at again under the same lock that a revocation takes, so that none slips through
// between the two.
func (n *Nodes) enter(s *session, key ed25519.PublicKey, hello *wire.Hello) (*record, wire.CloseCode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.roster[s.node]
	if code := n.standing(r, key); code != wire.CloseDone {
		return nil, code
	}
	if far := n.elsewhere[s.node]; far != nil && far.far.epoch > s.place.Load() {
		return nil, wire.CloseTakenOver
	}
	if old := n.sessions[s.node]; old != nil {
		n.log.Warn("node.taken_over", "node", s.node, "remote", s.conn.RemoteAddr().String(), "old_remote", old.conn.RemoteAddr().String())
		go closeWith(old.conn, wire.CloseTakenOver) // it waits for the connection, the lock must not
	}
	n.sessions[s.node] = s
	delete(n.elsewhere, s.node)
	s.stopEpoch.Store(hello.StopEpoch)
	p := n.presence[s.node]
	p.stopEpoch, p.stopped, p.skew = hello.StopEpoch, hello.Stopped, hello.CatalogHash != n.opts.CatalogHash
	p.site = siteStop{hello.SiteEpoch, hello.SiteStopped}
	n.presence[s.node] = p
	n.opts.OnStop(s.node, hello.StopEpoch, hello.Stopped)
	n.notifyLocked()
	return r, wire.CloseDone
}

// exit ends the session's place in the map, unless a newer one has it.
func (n *Nodes) exit(s *session) {
	n.mu.Lock()
	mine := n.sessions[s.node] == s
	if mine {
		delete(n.sessions, s.node)
		n.notifyLocked()
	}
	n.mu.Unlock()
	n.log.Info("node.disconnected", "node", s.node, "epoch", s.epoch, "cause", context.Cause(s.conn.Context()))
	if !mine {
		return
	}
	// When it was last here is worth a try, no more.
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if err := errors.Join(n.leavePlace(ctx, s), n.seen(ctx, s.node)); err != nil {
		n.log.Warn("node.last_seen", "node", s.node, "err", err)
	}
}

func (n *Nodes) seen(ctx context.Context, id capabilities.NodeID) error {
	now := n.opts.Now()
	n.mu.Lock()
	if r := n.roster[id]; r != nil {
		c := *r
		c.lastSeen = now
		n.roster[id] = &c
		n.snapshot.Store(nil)
	}
	n.mu.Unlock()
	return n.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE node SET last_seen = $1 WHERE node_id = $2`, millis(now), string(id))
		return err
	})
}

// listen reads the frames of the control stream and does what they say, until the
// connection breaks.
func (n *Nodes) listen(g *greeting) {
	for {
		if err := n.hear(g.session, g.reader, g.logKey); err != nil {
			n.part(g, n.brokenBy(g.session.node, err))
			return
		}
		g.silence.Reset(3 * n.opts.Heartbeat)
	}
}

// hear reads one frame and does what it says.
func (n *Nodes) hear(s *session, reader *wire.Reader, logKey ed25519.PublicKey) error {
	m, err := reader.Next()
	if err != nil {
		return err
	}
	if !s.frames.AllowN(time.Now(), frameCost(m)) {
		return errTalkative
	}
	switch m := m.(type) {
	case *wire.Heartbeat:
		if len(m.Addrs) > 0 {
			s.placed(m.Addrs)
		}
		if m.Head != nil {
			n.opts.OnNodeHead(s.node, logKey, *m.Head)
		}
		s.pools.Store(&m.Pools)
		return s.send(&wire.HeartbeatAck{Seq: m.Seq, Head: n.opts.Head()})
	case *wire.Readiness:
		n.setReadiness(s, m)
	case *wire.Stop:
		n.setStop(s, m)
	case *wire.Rotate:
		return s.send(n.rotate(s, m))
	case *wire.Verdict:
		return n.takeVerdict(s, m)
	}
	return nil
}

var errTalkative = errors.New("the node says more than a node has to say")

// brokenBy returns the code to close with after an error of the control stream.
func (n *Nodes) brokenBy(node capabilities.NodeID, err error) wire.CloseCode {
	var refused *capabilities.Error
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errTalkative):
		n.log.Warn("node.talkative", "node", node)
		return wire.CloseOverloaded
	case errors.As(err, &refused):
		n.log.Warn("node.protocol", "node", node, "err", err)
		return wire.CloseProtocol
	case errors.As(err, &timeout) && timeout.Timeout():
		return wire.CloseHeartbeat
	}
	return wire.CloseDone
}

// maxShared bounds the table of shared readiness. Beyond it sets are no longer
// shared with the ones before; nothing else changes.
const maxShared = 256

func (n *Nodes) setReadiness(s *session, m *wire.Readiness) {
	makePlain(m)
	n.outdate(s, m)
	sort.Slice(m.Capabilities, func(i, j int) bool { return m.Capabilities[i].Capability < m.Capabilities[j].Capability })
	frame, err := wire.Encode(m)
	if err != nil {
		return // it was decoded a moment ago
	}
	digest := sha256.Sum256(frame)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sessions[s.node] != s {
		return
	}
	set, ok := n.shared[digest]
	if !ok {
		set = make(readinessSet, len(m.Capabilities))
		for _, c := range m.Capabilities {
			set[c.Capability] = c
		}
		if len(n.shared) >= maxShared {
			clear(n.shared)
		}
		n.shared[digest] = set
	}
	n.tellPlace(s) // others may not know yet that it said so again
	p := n.presence[s.node]
	if p.readiness != nil && maps.EqualFunc(p.readiness, set, capabilities.Readiness.Same) {
		return
	}
	p.readiness = set
	n.presence[s.node] = p
	n.notifyLocked()
}

// rotate certifies a node's new key. The old one stays good until the new one is
// used for the first time: an answer can get lost.
func (n *Nodes) rotate(s *session, m *wire.Rotate) *wire.RotateAnswer {
	key := ed25519.PublicKey(m.PublicKey)
	tls := s.conn.ConnectionState().TLS
	binding, err := tls.ExportKeyingMaterial(pairing.ExporterLabel, nil, 32)
	if err != nil || !ed25519.Verify(key, pairing.RotationStatement(n.opts.Site.ID(), s.node, binding), m.Proof) {
		return &wire.RotateAnswer{Code: capabilities.CodeInvalidRequest}
	}
	if other := n.lookupKey(key); other != nil && (other.id != s.node || key.Equal(other.key)) {
		return &wire.RotateAnswer{Code: capabilities.CodeConflict}
	}
	_, err = n.change(s.conn.Context(), s.node, "node.key_certified", packet.NodeKey{Key: pairing.Fingerprint(key)}, func(r *record) error {
		if r.state != pairing.StateApproved {
			return &capabilities.Error{Code: capabilities.CodeNodeNotPaired}
		}
		r.nextKey = key
		return nil
	})
	if err != nil {
		return &wire.RotateAnswer{Code: capabilities.CodeOf(err)}
	}
	cert, err := n.opts.Site.CertifyNode(s.node, key, n.opts.Now())
	if err != nil {
		return &wire.RotateAnswer{Code: capabilities.CodeOf(err)}
	}
	return &wire.RotateAnswer{Cert: cert.Raw}
}
