package link

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

const (
	dialTimeout  = 5 * time.Second // each address
	dialStagger  = 300 * time.Millisecond
	helloTimeout = 10 * time.Second
	writeTimeout = 5 * time.Second
	idleTimeout  = 30 * time.Second // the gateway may ask for less
	// maxCalls is how many call streams the gateway may have open here at once.
	maxCalls = 1024
)

// path is a connection and the way that it goes.
type path struct {
	*quic.Conn
	way
	gone <-chan struct{} // closed when nothing of it is left
}

// close closes the connection, and waits until that was said where it takes a stream to say it.
func (p *path) close(code wire.CloseCode) {
	closeWith(p.Conn, code)
	<-p.gone
}

// dial connects by the first way that answers for the pinned site: the addresses one after the
// other, each by QUIC first. cert may be nil: then the key alone is shown, and only joining is
// possible.
func (d *dialer) dial(ctx context.Context, addrs []string, site capabilities.SiteID, key ed25519.PrivateKey,
	cert *x509.Certificate) (*path, error) {
	joining := cert == nil
	if joining {
		var err error
		if cert, err = pairing.SelfSigned(key, time.Now()); err != nil {
			return nil, err
		}
	}
	who := caller{site: site, key: key, cert: cert, joining: joining}
	ways := d.ways(addrs)
	ctx, cancel := context.WithCancel(ctx)
	var dials sync.WaitGroup
	defer func() { cancel(); dials.Wait() }()
	type outcome struct {
		way  way
		path *path
		err  error
	}
	outcomes := make(chan outcome)
	for _, w := range ways {
		dials.Go(func() {
			// One after the other, but without waiting for a dead one to time out (as RFC 8305
			// does): a gateway has addresses that only some can reach, and networks drop UDP.
			if capabilities.Sleep(ctx, w.after) != nil {
				return
			}
			p, err := d.try(ctx, w, who)
			select {
			case outcomes <- outcome{w, p, err}:
			case <-ctx.Done():
				if p != nil {
					p.close(wire.CloseDone)
				}
			}
		})
	}
	refused := map[string]error{} // by address
	var first error
	var failed []error
	for range ways {
		select {
		case o := <-outcomes:
			if o.err == nil {
				d.last = o.way.over
				return o.path, nil
			}
			if capabilities.CodeOf(o.err) != capabilities.CodeInternal {
				refused[o.way.addr] = o.err
				first = cmp.Or(first, o.err)
			} else {
				failed = append(failed, fmt.Errorf("%s %s: %w", o.way.over, o.way.addr, o.err))
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// Only if every address is somebody else's is that the last word: the right
	// gateway may be down behind one of them.
	if first != nil && !slices.ContainsFunc(ways, func(w way) bool { return refused[w.addr] == nil }) {
		return nil, first
	}
	return nil, errors.Join(failed...)
}

// caller is who connects, and to whom.
type caller struct {
	site    capabilities.SiteID
	key     ed25519.PrivateKey
	cert    *x509.Certificate
	joining bool
}

// mismatch is why the far end of a TLS connection is not of the pinned site: QUIC passes only the
// text on, and a handshake that was given up may still find it.
type mismatch struct{ found atomic.Pointer[error] }

func (r *mismatch) err() error {
	if found := r.found.Load(); found != nil {
		return *found
	}
	return nil
}

// tls is TLS for a protocol with the pinned site.
func (c *caller) tls(protocol string, refused *mismatch) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{protocol},
		ServerName:   "handrail.invalid", // names nothing: trust comes from the pin
		Certificates: []tls.Certificate{{Certificate: [][]byte{c.cert.Raw}, PrivateKey: c.key, Leaf: c.cert}},
		// The usual verification asks a public authority; ours asks for the pinned
		// site, on every connection, and refuses all else.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			_, err := pairing.VerifyGateway(cs.PeerCertificates, c.site, time.Now())
			if err != nil {
				refused.found.Store(&err)
			}
			return err
		},
	}
}

// quic is how QUIC is set up for any way.
func (c *caller) quic() *quic.Config {
	conf := &quic.Config{
		MaxIdleTimeout:        idleTimeout,
		HandshakeIdleTimeout:  dialTimeout,
		MaxIncomingStreams:    maxCalls,
		MaxIncomingUniStreams: -1,
	}
	if c.joining {
		// Nobody speaks while a person decides; heartbeats do this later.
		conf.KeepAlivePeriod = idleTimeout / 3
		conf.MaxIncomingStreams = -1
	}
	return conf
}

// try connects by one way.
func (d *dialer) try(ctx context.Context, w way, who caller) (*path, error) {
	if w.over != tunnel.QUIC {
		return d.tryStream(ctx, w, who)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var refused mismatch
	conn, err := quic.DialAddr(ctx, w.addr, who.tls(wire.ALPN, &refused), who.quic())
	if err != nil {
		return nil, cmp.Or(refused.err(), err)
	}
	return &path{Conn: conn, way: w, gone: conn.Context().Done()}, nil
}

// refusal returns the gateway's own word for closing the connection, if err is one.
func refusal(err error) (wire.CloseCode, bool) {
	var closed *quic.ApplicationError
	if errors.As(err, &closed) && closed.Remote {
		return wire.CloseCode(closed.ErrorCode), true
	}
	return 0, false
}

// badCertificate reports whether the gateway refused our certificate in the TLS
// handshake (alert 42 … 48, RFC 9001 4.8): it ended, by the gateway's clock.
func badCertificate(err error) bool {
	var t *quic.TransportError
	return errors.As(err, &t) && t.Remote && t.ErrorCode >= 0x100+42 && t.ErrorCode <= 0x100+48
}

// explain turns an error of a connection into one with a code: the gateway's own
// word if there is one.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if code, ok := refusal(err); ok {
		return capabilities.Wrap(code.Code(), err, "")
	}
	var coded *capabilities.Error
	if errors.As(err, &coded) {
		return coded
	}
	return capabilities.Wrap(capabilities.CodeNodeDisconnected, err, "The gateway cannot be reached.").
		WithHint("See that the gateway runs and that this device reaches its port, by UDP or else by TCP. The device goes on trying.")
}

func closeWith(conn *quic.Conn, code wire.CloseCode) {
	_ = conn.CloseWithError(quic.ApplicationErrorCode(code), "")
}
