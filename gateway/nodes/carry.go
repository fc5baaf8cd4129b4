package nodes

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// streams are the connections of nodes whose network drops UDP: QUIC's packets in byte streams.
// QUIC identifies a node, as over UDP; a stream is nobody's until then.
type streams struct {
	hub       *tunnel.Hub
	transport *quic.Transport
	listener  *quic.Listener
	tcp       net.Listener // nil: another server has the port

	mu       sync.Mutex
	over     bool
	carried  sync.WaitGroup // under mu
	arriving *list.List     // of *carried that are nobody's yet, the oldest first
	from     map[netip.Addr]int
	open     map[*tunnel.Addr]*carried
}

// carried is one stream.
type carried struct {
	addr   *tunnel.Addr
	stream net.Conn
	known  func() // told when it is a node's
	at     *list.Element
	late   *time.Timer
	conn   *quic.Conn // nil: nobody's yet
}

// streamBuffer bounds what the system keeps of what goes to one node: what is said to it now waits
// behind that.
const streamBuffer = 256 << 10

// listenStreams makes the listener of streams, on the TCP port that is called as the UDP port.
func (n *Nodes) listenStreams(ctx context.Context, udp net.Addr) (*streams, error) {
	hub := tunnel.NewHub()
	s := &streams{
		hub: hub, transport: &quic.Transport{Conn: hub}, arriving: list.New(), from: map[netip.Addr]int{}, open: map[*tunnel.Addr]*carried{},
	}
	conf := n.quicConfig()
	conf.InitialPacketSize, conf.DisablePathMTUDiscovery = tunnel.MaxPacket, true
	var err error
	if s.listener, err = s.transport.Listen(n.tlsConfig(), conf); err != nil {
		return nil, err
	}
	if n.opts.NoTCP {
		return s, nil
	}
	if s.tcp, err = (&net.ListenConfig{}).Listen(ctx, "tcp", udp.String()); err != nil {
		n.log.Warn("nodes.no_tcp", "addr", udp.String(), "err", err, "hint", "nodes whose network drops UDP do not find this gateway there")
		s.tcp = nil
	}
	return s, nil
}

func (s *streams) close() error {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	var err error
	if s.tcp != nil {
		err = s.tcp.Close()
	}
	_ = s.listener.Close()
	err = errors.Join(err, s.transport.Close(), s.hub.Close())
	s.carried.Wait()
	return err
}

// StreamTLS is TLS for a stream that begins with a TLS handshake of ours: the gateway proves that
// it is of the site before a node sends anything, and a caller that shows no certificate is no
// node. QUIC's handshake within judges the certificate.
func (n *Nodes) StreamTLS() *tls.Config {
	conf := n.tlsConfig()
	conf.NextProtos, conf.VerifyConnection = []string{wire.ALPNStream}, nil
	return conf
}

// acceptTCP takes streams of the TCP port until it is closed.
func (n *Nodes) acceptTCP(s *streams) {
	for {
		raw, err := s.tcp.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			n.log.Warn("nodes.accept", "err", err) // no descriptor is free, say
			time.Sleep(acceptAgain)
			continue
		}
		peer, _ := netip.ParseAddrPort(raw.RemoteAddr().String())
		if t, ok := raw.(*net.TCPConn); ok {
			_ = t.SetWriteBuffer(streamBuffer)
		}
		c := s.arrive(raw, &tunnel.Addr{Over: tunnel.TCP, Peer: peer}, n.opts.MaxUnknown, nil)
		if c == nil {
			continue
		}
		go func() {
			defer s.carried.Done()
			ctx, cancel := context.WithTimeout(context.Background(), helloTimeout)
			defer cancel()
			sealed := tls.Server(raw, n.StreamTLS())
			if err := sealed.HandshakeContext(ctx); err != nil || sealed.ConnectionState().NegotiatedProtocol != wire.ALPNStream {
				_ = raw.Close()
				s.leave(c)
				return
			}
			n.carry(s, c, sealed)
		}()
	}
}

// acceptAgain is how long the TCP port waits after it could not take a stream.
const acceptAgain = 50 * time.Millisecond

// Carry serves a node by a stream that another server took for it, until it ends. known is told
// once, when the stream is a node's.
func (n *Nodes) Carry(stream net.Conn, addr *tunnel.Addr, known func()) {
	n.listenMu.Lock()
	s := n.streams
	n.listenMu.Unlock()
	if s == nil {
		_ = stream.Close()
		return
	}
	c := s.arrive(stream, addr, n.opts.MaxUnknown, known)
	if c == nil {
		return
	}
	defer s.carried.Done()
	n.carry(s, c, stream)
}

func (n *Nodes) carry(s *streams, c *carried, stream net.Conn) {
	err := s.hub.Carry(stream, c.addr)
	if conn := s.leave(c); conn != nil {
		n.log.Debug("node.stream_ended", "transport", c.addr.Over, "remote", c.addr.String(), "err", err)
		closeWith(conn, wire.CloseDone) // nobody reads that; ours learn at once that the way is gone
	}
}

// arrive takes a stream in that is nobody's yet. Of most such ones it keeps one out of nobody's
// way: whose address has a quarter of them loses its oldest, and else the oldest of all goes.
func (s *streams) arrive(stream net.Conn, addr *tunnel.Addr, most int, known func()) *carried {
	c := &carried{addr: addr, stream: stream, known: known}
	peer := addr.Peer.Addr()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		_ = stream.Close()
		return nil
	}
	share := max(1, most/4)
	if peer.IsLoopback() || !peer.IsValid() {
		share = most // all programs of this machine, or all whom a proxy serves
	}
	for e := s.arriving.Front(); e != nil && (s.from[peer] >= share || s.arriving.Len() >= most); e = e.Next() {
		if old := e.Value.(*carried); s.from[peer] < share || old.addr.Peer.Addr() == peer {
			s.settleLocked(old)
			_ = old.stream.Close()
			break
		}
	}
	s.from[peer]++
	c.at = s.arriving.PushBack(c)
	c.late = time.AfterFunc(helloTimeout, func() { _ = stream.Close() })
	s.open[addr] = c
	s.carried.Add(1)
	return c
}

// settleLocked has a stream count as nobody's no longer.
func (s *streams) settleLocked(c *carried) {
	if c.at == nil {
		return
	}
	c.late.Stop()
	s.arriving.Remove(c.at)
	c.at = nil
	peer := c.addr.Peer.Addr()
	if s.from[peer]--; s.from[peer] == 0 {
		delete(s.from, peer)
	}
}

// leave ends a stream's place and returns the connection that went by it, if any.
func (s *streams) leave(c *carried) *quic.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked(c)
	delete(s.open, c.addr)
	return c.conn
}

// claim makes a stream a connection's. It returns false where the stream is gone, or another's.
func (s *streams) claim(conn *quic.Conn) bool {
	addr, ok := conn.RemoteAddr().(*tunnel.Addr)
	if !ok {
		return false
	}
	s.mu.Lock()
	c := s.open[addr]
	if c == nil || c.conn != nil {
		s.mu.Unlock()
		return false
	}
	c.conn = conn
	s.settleLocked(c)
	s.mu.Unlock()
	if c.known != nil {
		c.known()
	}
	context.AfterFunc(conn.Context(), func() { s.hub.Finish(addr) })
	return true
}

// acceptStreams takes the connections that come by streams until ctx ends.
func (n *Nodes) acceptStreams(ctx context.Context, s *streams, serve func(*quic.Conn)) {
	for {
		conn, err := s.listener.Accept(ctx)
		if err != nil {
			return
		}
		if !s.claim(conn) {
			closeWith(conn, wire.CloseProtocol)
			continue
		}
		serve(conn)
	}
}
