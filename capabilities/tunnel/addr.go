package tunnel

import (
	"net"
	"net/netip"
)

// Transport is what carries a node's connection.
type Transport string

// The transports.
const (
	QUIC      Transport = "quic"      // packets of UDP
	TCP       Transport = "tcp"       // in TLS on TCP
	WebSocket Transport = "websocket" // in a WebSocket of an HTTPS server
)

// Addr is the far end of a stream. Each stream has its own, told apart by its pointer.
type Addr struct {
	Over Transport
	Peer netip.AddrPort // from where the stream comes; not valid: nobody knows
}

// Network returns the transport.
func (a *Addr) Network() string { return string(a.Over) }

// String returns from where the stream comes.
func (a *Addr) String() string {
	if !a.Peer.IsValid() {
		return "unknown"
	}
	return a.Peer.String()
}

// Of returns what carries a connection whose far end has that address.
func Of(a net.Addr) Transport {
	if t, ok := a.(*Addr); ok {
		return t.Over
	}
	return QUIC
}

// PeerOf returns from where a connection comes whose far end has that address; not valid:
// nobody knows.
func PeerOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *Addr:
		return a.Peer.Addr().Unmap().WithZone("")
	case *net.UDPAddr:
		addr, _ := netip.AddrFromSlice(a.IP)
		return addr.Unmap().WithZone("")
	case *net.TCPAddr:
		addr, _ := netip.AddrFromSlice(a.IP)
		return addr.Unmap().WithZone("")
	}
	return netip.Addr{}
}
