package front

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/coder/websocket"

	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// NodeStreams serves the nodes whose network drops UDP and who come to this server's port. They
// prove their identity within their streams, past any proxy.
type NodeStreams interface {
	// StreamTLS is the TLS of streams that begin with a handshake of the site's own.
	StreamTLS() *tls.Config
	// Carry serves a node by a stream until it ends. known is called once, when it is a node's.
	Carry(stream net.Conn, addr *tunnel.Addr, known func())
}

// serveNodes has the port serve nodes: by the application protocol that they name in TLS, and in a
// WebSocket for those who come by a proxy.
func (s *Server) serveNodes() {
	if s.opts.Nodes != nil {
		s.Handle("GET "+wire.StreamPath, Open, http.HandlerFunc(s.nodeSocket))
	}
}

// beside has server hand the streams of nodes on; clients that name no protocol of theirs meet
// what they met before.
func (s *Server) beside(server *http.Server) {
	nodes := s.opts.Nodes
	if nodes == nil || server.TLSConfig == nil {
		return
	}
	theirs := nodes.StreamTLS()
	server.TLSConfig.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, wire.ALPNStream) {
			return theirs, nil
		}
		return nil, nil
	}
	server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		wire.ALPNStream: func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
			peer, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
			if s.trusted(canonical(peer.Addr())) {
				peer = netip.AddrPort{} // whom it serves it does not say
			}
			nodes.Carry(conn, &tunnel.Addr{Over: tunnel.TCP, Peer: peer}, func() { connectionOf(conn).free() })
		},
	}
	server.Protocols = new(http.Protocols) // a table of protocols turns HTTP/2 off where nothing is said
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
}

// nodeSocket serves one node by a WebSocket.
func (s *Server) nodeSocket(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.ALPNStream}})
	if err != nil {
		return // it has answered
	}
	if socket.Subprotocol() != wire.ALPNStream {
		_ = socket.Close(websocket.StatusPolicyViolation, "this is for nodes")
		return
	}
	socket.SetReadLimit(wire.MaxStreamMessage)
	addr := &tunnel.Addr{Over: tunnel.WebSocket}
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && Told(r) {
		addr.Peer = peer
	}
	conn, _ := r.Context().Value(connectionKey{}).(*connection)
	s.opts.Nodes.Carry(&socketStream{websocket.NetConn(context.Background(), socket, websocket.MessageBinary), socket}, addr, conn.free)
}

// socketStream is a WebSocket as a stream. It closes without the handshake of its own, which may
// wait: a stream says its end itself.
type socketStream struct {
	net.Conn
	socket *websocket.Conn
}

// Close closes the connection below.
func (w *socketStream) Close() error { return w.socket.CloseNow() }

// free takes a connection out of its room while it stays open: nodes have room of their own.
func (c *connection) free() {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.leaveLocked(c)
}
