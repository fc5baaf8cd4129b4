package nodes

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// Where several gateways serve at once, each knows where every node is: its place. A call for a
// node elsewhere goes over a stream to the gateway that holds it, which relays the bytes of both
// directions, and their resets, to a stream of the node. The ticket is that of the gateway that
// decided; the holder makes its sequence.
//
//	asking gateway  → farAsk    uint32 BE length | JSON
//	holding gateway → farGrant  uint32 BE length | JSON, or a reset: nothing was started
//	then the frames of a call's stream, as between gateway and node

const (
	// peerALPN is that of connections between gateways of a site.
	peerALPN      = "handrail-peer/1"
	peerStreams   = 10_000 // calls at once over one connection
	peerIdle      = 6 * time.Second
	peerKeepAlive = 2 * time.Second
	peerDial      = 2 * time.Second
	maxFarHead    = 4 << 10
	// resetLost: the way from the holding gateway to the node broke. Nobody knows what became of it.
	resetLost = 64
)

// farAsk is for which node a stream is, as the gateway that asks knows its place.
type farAsk struct {
	Member string              `json:"member"` // that asks
	Node   capabilities.NodeID `json:"node"`
	Epoch  int64               `json:"epoch"` // of the place
	// Call is that of the ticket; Journal says that a question to the node's journal comes. With
	// neither it is anything that starts nothing.
	Call    capabilities.CallID `json:"call,omitempty"`
	Journal bool                `json:"journal,omitempty"`
	// Number says that nothing is wanted but a sequence, for a step.
	Number bool `json:"number,omitempty"`
	// Word says that the stream is for no node: the gateway itself is asked.
	Word string `json:"word,omitempty"`
}

// farGrant is what a ticket has of the connection that it goes over.
type farGrant struct {
	Sequence  uint64 `json:"sequence"`
	StopEpoch uint64 `json:"stop_epoch"`
}

func writeHead(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func readHead(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFarHead {
		return errors.New("nodes: the head of a relayed stream is too long")
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// peers are the other gateways of the site, and the streams that are relayed for them.
type peers struct {
	n         *Nodes
	udp       net.PacketConn
	transport *quic.Transport
	listener  *quic.Listener

	mu    sync.Mutex
	conns map[string]*peerConn // to members, by where they are reached

	// gate is held for reading while bytes go on to a node, and for writing while it is looked
	// which members are still in: after that, nothing of one that is out goes on.
	gate   sync.RWMutex
	relays map[*relay]bool
}

type peerConn struct {
	dialing sync.Mutex
	conn    *quic.Conn
}

// relay is one stream of a member's to a node that is here.
type relay struct {
	farAsk
	cut bool // the member is out; guarded by peers.gate
}

// ListenPeers opens the UDP address at which other gateways of the site reach this one, and
// returns it.
func (n *Nodes) ListenPeers(ctx context.Context, at string) (net.Addr, error) {
	udp, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", at)
	if err != nil {
		return nil, err
	}
	p := &peers{n: n, udp: udp, transport: &quic.Transport{Conn: udp}, conns: map[string]*peerConn{}, relays: map[*relay]bool{}}
	listener, err := p.transport.Listen(&tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{peerALPN}, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return n.certificate() },
		VerifyConnection: func(cs tls.ConnectionState) error {
			return n.opts.Site.VerifyPeer(cs.PeerCertificates, n.opts.Now())
		},
	}, p.config())
	if err != nil {
		_ = udp.Close()
		return nil, err
	}
	p.listener = listener
	n.listenMu.Lock()
	defer n.listenMu.Unlock()
	n.peers = p
	return udp.LocalAddr(), nil
}

func (p *peers) config() *quic.Config {
	return &quic.Config{
		MaxIdleTimeout: peerIdle, KeepAlivePeriod: peerKeepAlive, HandshakeIdleTimeout: peerDial, MaxIncomingStreams: peerStreams,
		MaxIncomingUniStreams: -1, Allow0RTT: false,
	}
}

func (p *peers) close() {
	_ = p.listener.Close()
	_ = p.transport.Close()
	_ = p.udp.Close()
}

// run serves other gateways until ctx ends.
func (p *peers) run(ctx context.Context) {
	var served sync.WaitGroup
	defer served.Wait()
	for {
		conn, err := p.listener.Accept(ctx)
		if err != nil {
			return
		}
		served.Go(func() {
			stop := context.AfterFunc(ctx, func() { closeWith(conn, wire.CloseDone) })
			defer stop()
			for {
				stream, err := conn.AcceptStream(ctx)
				if err != nil {
					return
				}
				served.Go(func() { p.serve(conn.Context(), stream) })
			}
		})
	}
}

// connect returns a connection to the gateway that is reached at an address.
func (p *peers) connect(ctx context.Context, at string) (*quic.Conn, error) {
	p.mu.Lock()
	c := p.conns[at]
	if c == nil {
		c = &peerConn{}
		p.conns[at] = c
	}
	p.mu.Unlock()
	c.dialing.Lock()
	defer c.dialing.Unlock()
	if c.conn != nil && c.conn.Context().Err() == nil {
		return c.conn, nil
	}
	cert, err := p.certificate()
	if err != nil {
		return nil, err
	}
	addr, err := net.ResolveUDPAddr("udp", at)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, peerDial)
	defer cancel()
	site := p.n.opts.Site.ID()
	c.conn, err = p.transport.Dial(ctx, addr, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{peerALPN}, Certificates: []tls.Certificate{cert},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does, by the site's key
		VerifyConnection: func(cs tls.ConnectionState) error {
			_, err := pairing.VerifyGateway(cs.PeerCertificates, site, p.n.opts.Now())
			return err
		},
	}, p.config())
	return c.conn, err
}

// certificate is by what another gateway of the site knows this one.
func (p *peers) certificate() (tls.Certificate, error) {
	n := p.n
	leaf, err := n.opts.Site.CertifyPeer(n.opts.Key.Public().(ed25519.PublicKey), n.opts.Now())
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{leaf.Raw, n.opts.Site.Root().Raw}, PrivateKey: n.opts.Key, Leaf: leaf}, nil
}

// openFar opens a stream to a node that another gateway holds. Nothing can have started there
// before more is written.
func (n *Nodes) openFar(ctx context.Context, s *session, ask farAsk) (*exchange, farGrant, error) {
	fail := func(err error) (*exchange, farGrant, error) {
		if ended := ending(ctx); ended != nil {
			return nil, farGrant{}, ended
		}
		return nil, farGrant{}, disconnected(err)
	}
	n.listenMu.Lock()
	p := n.peers
	n.listenMu.Unlock()
	if p == nil || s.far.at == "" {
		return fail(errors.New("nodes: the gateway that holds the node is not known"))
	}
	conn, err := p.connect(ctx, s.far.at)
	if err != nil {
		return fail(err)
	}
	c, err := open(ctx, conn)
	if err != nil {
		return nil, farGrant{}, err
	}
	ask.Member, ask.Node, ask.Epoch = n.opts.Store.Member(), s.node, s.far.epoch
	var grant farGrant
	_ = c.stream.SetReadDeadline(time.Now().Add(writeTimeout))
	if err = writeHead(c.stream, ask); err == nil {
		err = readHead(c.stream, &grant)
	}
	_ = c.stream.SetReadDeadline(time.Time{})
	if err != nil || grant.Sequence == 0 {
		c.end()
		return fail(errors.Join(errors.New("nodes: the gateway that held the node does not any more"), err))
	}
	return c, grant, nil
}

// farSequence returns a sequence for a step at a node that another gateway holds; 0, which no node
// takes, where there is none.
func (n *Nodes) farSequence(ctx context.Context, s *session) uint64 {
	c, grant, err := n.openFar(ctx, s, farAsk{Number: true})
	if err != nil {
		return 0
	}
	_ = c.stream.Close()
	c.done = true
	c.end()
	return grant.Sequence
}

// serve relays one stream of another gateway's.
func (p *peers) serve(life context.Context, from *quic.Stream) {
	refuse := func(code quic.StreamErrorCode) {
		from.CancelRead(code)
		from.CancelWrite(code)
	}
	var ask farAsk
	_ = from.SetDeadline(time.Now().Add(writeTimeout))
	if err := readHead(from, &ask); err != nil {
		refuse(wire.ResetProtocol)
		return
	}
	s := p.n.session(ask.Node)
	if ask.Word == "" && (s == nil || s.place.Load() != ask.Epoch) { // it is held elsewhere by now, or nowhere
		refuse(wire.ResetRefused)
		return
	}
	if ask.Word == "" || !p.n.word(ask.Word).always {
		if in, err := p.n.opts.Store.In(life, ask.Member); err != nil || !in {
			refuse(wire.ResetRefused)
			return
		}
	}
	if ask.Word != "" {
		p.answer(life, from, ask)
		return
	}
	if err := writeHead(from, farGrant{p.n.sequence.Add(1), s.stopEpoch.Load()}); err != nil {
		refuse(wire.ResetRefused)
		return
	}
	_ = from.SetDeadline(time.Time{})
	if ask.Number {
		_ = from.Close()
		from.CancelRead(wire.ResetDone)
		return
	}
	if ask.Journal {
		p.journal(life, s, from)
		return
	}
	p.relay(life, s, from, ask)
}

// journal answers what became of calls for another gateway.
func (p *peers) journal(life context.Context, s *session, from *quic.Stream) {
	ctx, cancel := context.WithTimeout(life, artifactTimeout)
	defer cancel()
	fail := func() {
		from.CancelRead(resetLost)
		from.CancelWrite(resetLost)
	}
	m, err := wire.NewReader(from, wire.KindJournalAsk).Next()
	if err != nil {
		fail()
		return
	}
	states, err := p.n.askHere(ctx, s, m.(*wire.JournalAsk))
	if err != nil {
		fail()
		return
	}
	for i := range states {
		if err := wire.Write(from, &states[i]); err != nil {
			fail()
			return
		}
	}
	_ = from.Close()
}

// relay passes bytes on both ways until the node's direction ends. A member that is gone cannot
// hear the answer: the call goes on, and the node's journal has its end.
func (p *peers) relay(life context.Context, s *session, from *quic.Stream, ask farAsk) {
	to, err := s.conn.OpenStreamSync(life)
	if err != nil {
		from.CancelRead(wire.ResetRefused)
		from.CancelWrite(wire.ResetRefused)
		return
	}
	r := &relay{farAsk: ask}
	p.gate.Lock()
	moving := s.moving
	p.relays[r] = true
	p.gate.Unlock()
	defer func() {
		p.gate.Lock()
		delete(p.relays, r)
		p.gate.Unlock()
	}()
	if moving { // nothing of it has begun, and the node is about to be elsewhere
		from.CancelRead(wire.ResetRefused)
		from.CancelWrite(wire.ResetRefused)
		to.CancelRead(wire.ResetCancelled)
		to.CancelWrite(wire.ResetCancelled)
		return
	}
	var up sync.WaitGroup
	up.Go(func() { p.up(r, from, to) })
	_, err = io.Copy(from, to)
	var reset *quic.StreamError
	switch {
	case err == nil:
		_ = from.Close()
		_ = from.SetReadDeadline(time.Now().Add(writeTimeout)) // its last word may be on its way
		up.Wait()
	case errors.As(err, &reset) && reset.Remote && reset.StreamID == to.StreamID():
		from.CancelWrite(reset.ErrorCode)
		from.CancelRead(reset.ErrorCode)
	default:
		if s.conn.Context().Err() != nil {
			from.CancelWrite(resetLost)
			from.CancelRead(resetLost)
			break
		}
		// The other gateway does not read any more. Somebody has to: the stream would stay.
		_, _ = io.Copy(io.Discard, to)
		from.CancelWrite(resetLost)
	}
	from.CancelRead(wire.ResetDone) // ends up, if it goes on
	up.Wait()
}

// up passes on what the other gateway says, as long as it is a member.
func (p *peers) up(r *relay, from, to *quic.Stream) {
	buf := make([]byte, 32<<10)
	for first := true; ; first = false {
		read, err := from.Read(buf)
		if read > 0 {
			ok, werr := p.pass(r, to, buf[:read], first)
			if !ok {
				if first { // nothing of it arrived
					from.CancelWrite(wire.ResetRefused)
					to.CancelWrite(wire.ResetCancelled)
					to.CancelRead(wire.ResetCancelled)
				}
				return
			}
			if werr != nil {
				return
			}
		}
		var reset *quic.StreamError
		switch {
		case err == nil:
		case err == io.EOF:
			_ = to.Close()
			return
		case errors.As(err, &reset) && reset.Remote: // the caller gave up
			to.CancelWrite(reset.ErrorCode)
			to.CancelRead(reset.ErrorCode)
			return
		default: // the other gateway is gone; what runs goes on
			return
		}
	}
}

// pass writes bytes on to the node, unless the member is out.
func (p *peers) pass(r *relay, to *quic.Stream, b []byte, first bool) (ok bool, err error) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if r.cut {
		return false, nil
	}
	if first { // whoever is put out later finds it among the relays
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		if in, err := p.n.opts.Store.In(ctx, r.Member); err != nil || !in {
			return false, nil
		}
	}
	_ = to.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err = to.Write(b)
	return true, err
}

// barrier cuts off members that are out from a node, and returns the calls that are still relayed
// to it. all: one of a member that is out is among them, so of no call it can be said that it never
// started.
func (p *peers) barrier(ctx context.Context, node capabilities.NodeID) (under map[capabilities.CallID]bool, all bool, err error) {
	p.gate.Lock()
	defer p.gate.Unlock()
	in := map[string]bool{}
	under = map[capabilities.CallID]bool{}
	for r := range p.relays {
		if r.Node != node {
			continue
		}
		there, known := in[r.Member]
		if !known {
			if there, err = p.n.opts.Store.In(ctx, r.Member); err != nil {
				return nil, false, err
			}
			in[r.Member] = there
		}
		if r.cut = r.cut || !there; r.cut {
			all = true
		}
		if r.Call != "" {
			under[r.Call] = true
		}
	}
	return under, all, nil
}

// askHere asks the journal of a node that this gateway holds. Of a call whose ticket is on its way
// to the node for another gateway, the journal may not know yet: it runs, until its stream ends.
func (n *Nodes) askHere(ctx context.Context, s *session, ask *wire.JournalAsk) ([]wire.JournalState, error) {
	n.listenMu.Lock()
	p := n.peers
	n.listenMu.Unlock()
	var under map[capabilities.CallID]bool
	if p != nil {
		relayed, all, err := p.barrier(ctx, s.node)
		if err != nil {
			return nil, disconnected(err)
		}
		if under = relayed; all {
			under = map[capabilities.CallID]bool{}
			for _, call := range ask.Calls {
				under[call] = true
			}
		}
	}
	rest := &wire.JournalAsk{}
	for i, call := range ask.Calls {
		if !under[call] {
			rest.Calls, rest.Recalls = append(rest.Calls, call), append(rest.Recalls, ask.Recall(i))
		}
	}
	told := map[capabilities.CallID]wire.JournalState{}
	if len(rest.Calls) > 0 {
		c, err := open(ctx, s.conn)
		if err != nil {
			return nil, err
		}
		states, err := c.ask(ctx, rest)
		if err != nil {
			return nil, err
		}
		for _, st := range states {
			told[st.Call] = st
		}
	}
	states := make([]wire.JournalState, len(ask.Calls))
	for i, call := range ask.Calls {
		if states[i] = told[call]; under[call] {
			states[i] = wire.JournalState{Call: call, State: wire.StateRunning}
		}
	}
	return states, nil
}
