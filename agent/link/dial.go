package link

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
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

// dial connects to the first address that answers for the pinned site. cert may
// be nil: then the key alone is shown, and only joining is possible.
func dial(ctx context.Context, addrs []string, site capabilities.SiteID, key ed25519.PrivateKey,
	cert *x509.Certificate) (*quic.Conn, error) {
	joining := cert == nil
	if joining {
		var err error
		if cert, err = pairing.SelfSigned(key, time.Now()); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var dials sync.WaitGroup
	defer func() { cancel(); dials.Wait() }()
	type outcome struct {
		conn *quic.Conn
		err  error
	}
	outcomes := make(chan outcome)
	for i, addr := range addrs {
		dials.Go(func() {
			// One after the other, but without waiting for a dead address to time out
			// (as RFC 8305 does): a gateway has addresses that only some can reach.
			if capabilities.Sleep(ctx, time.Duration(i)*dialStagger) != nil {
				return
			}
			conn, err := dialOne(ctx, addr, site, key, cert, joining)
			select {
			case outcomes <- outcome{conn, err}:
			case <-ctx.Done():
				if conn != nil {
					closeWith(conn, wire.CloseDone)
				}
			}
		})
	}
	var refused, failed []error
	for range addrs {
		select {
		case o := <-outcomes:
			if o.err == nil {
				return o.conn, nil
			}
			if capabilities.CodeOf(o.err) != capabilities.CodeInternal {
				refused = append(refused, o.err)
			} else {
				failed = append(failed, o.err)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// Only if every address is somebody else's is that the last word: the right
	// gateway may be down behind one of them.
	if len(failed) == 0 && len(refused) > 0 {
		return nil, refused[0]
	}
	return nil, errors.Join(failed...)
}

func dialOne(ctx context.Context, addr string, site capabilities.SiteID, key ed25519.PrivateKey, cert *x509.Certificate,
	joining bool) (*quic.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var refused error // quic-go passes only the text on
	conf := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{wire.ALPN},
		ServerName:   "handrail.invalid", // names nothing: trust comes from the pin
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}},
		// The usual verification asks a public authority; ours asks for the pinned
		// site, on every connection, and refuses all else.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			_, refused = pairing.VerifyGateway(cs.PeerCertificates, site, time.Now())
			return refused
		},
	}
	quicConf := &quic.Config{
		MaxIdleTimeout:        idleTimeout,
		HandshakeIdleTimeout:  dialTimeout,
		MaxIncomingStreams:    maxCalls,
		MaxIncomingUniStreams: -1,
	}
	if joining {
		// Nobody speaks while a person decides; heartbeats do this later.
		quicConf.KeepAlivePeriod = idleTimeout / 3
		quicConf.MaxIncomingStreams = -1
	}
	conn, err := quic.DialAddr(ctx, addr, conf, quicConf)
	if refused != nil {
		return nil, refused
	}
	return conn, err
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
		WithHint("See that the gateway runs and that this device reaches its UDP port. The device goes on trying.")
}

func closeWith(conn *quic.Conn, code wire.CloseCode) {
	_ = conn.CloseWithError(quic.ApplicationErrorCode(code), "")
}
