package media

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"time"

	"github.com/pion/stun/v4"
	"github.com/pion/webrtc/v4"
)

// dialTime bounds the way to a TURN server by TCP.
const dialTime = 5 * time.Second

// helpers reads the servers that a call brought. One that is not understood cannot
// help, and others may.
func helpers(servers []server) (all []webrtc.ICEServer) {
	for _, s := range servers {
		u, err := stun.ParseURI(s.URL)
		if err != nil || isTURN(u) && (s.Username == "" || s.Credential == "") {
			continue
		}
		all = append(all, webrtc.ICEServer{URLs: []string{s.URL}, Username: s.Username, Credential: s.Credential})
	}
	return all
}

func isTURN(u *stun.URI) bool {
	return u.Scheme == stun.SchemeTypeTURN || u.Scheme == stun.SchemeTypeTURNS
}

// dialer goes to TURN servers by TCP, or TLS where their address says so: who takes
// nothing any more there is given up like everybody else.
type dialer struct {
	secure map[string]string // address to the name in the certificate
}

func newDialer(servers []webrtc.ICEServer) dialer {
	d := dialer{secure: map[string]string{}}
	for _, s := range servers {
		if u, err := stun.ParseURI(s.URLs[0]); err == nil && u.IsSecure() {
			d.secure[net.JoinHostPort(u.Host, strconv.Itoa(u.Port))] = u.Host
		}
	}
	return d
}

// Dial makes the connection.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(outbox)
	}
	name, secure := d.secure[address]
	if !secure {
		return timely{c}, nil
	}
	s := tls.Client(timely{c}, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12})
	if err := s.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return s, nil
}

// timely is a connection whose other side takes what is sent in time, or is gone.
type timely struct{ net.Conn }

// Write sends, or closes.
func (t timely) Write(b []byte) (int, error) {
	_ = t.SetWriteDeadline(time.Now().Add(stalled))
	n, err := t.Conn.Write(b)
	if err != nil {
		_ = t.Close()
	}
	return n, err
}
