package nodes

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plane is a listening Nodes on a database of its own.
type plane struct {
	*Nodes
	t    testing.TB
	addr net.Addr
	site *pairing.Site
}

func newPlane(t testing.TB, tune func(*Options)) *plane {
	t.Helper()
	dir := t.TempDir()
	siteKey, err := pairing.NewKey()
	must(t, err)
	site, err := pairing.NewSite(siteKey)
	must(t, err)
	key, err := pairing.NewKey()
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, "store.db"), Migrations: Migrations(), ReserveBytes: -1})
	must(t, err)
	o := Options{Store: s, Site: site, Key: key, Addr: "127.0.0.1:0", Heartbeat: 5 * time.Second}
	if tune != nil {
		tune(&o)
	}
	n, err := New(o)
	must(t, err)
	addr, err := n.Listen(ctx)
	must(t, err)
	storeCtx, cancelStore := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { _ = s.Run(storeCtx) })
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		cancelStore()
		ran.Wait()
		_ = s.Close()
	})
	return &plane{n, t, addr, site}
}

// enrolled puts an approved node into the roster and returns its key.
func (p *plane) enrolled() (capabilities.NodeID, ed25519.PrivateKey) {
	p.t.Helper()
	key, err := pairing.NewKey()
	must(p.t, err)
	inv, _, err := p.Invite(context.Background(), InviteSpec{AutoApprove: true})
	must(p.t, err)
	r, err := p.enrol(context.Background(), &inv, pairing.Profile{}, key.Public().(ed25519.PublicKey))
	must(p.t, err)
	return r.id, key
}

// dial opens a connection as whoever cert says; nil is nobody.
func (p *plane) dial(key ed25519.PrivateKey, cert *x509.Certificate, alpn string) (*quic.Conn, error) {
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{alpn}, MinVersion: tls.VersionTLS13}
	if cert != nil {
		conf.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := quic.DialAddr(ctx, p.addr.String(), conf, &quic.Config{MaxIncomingStreams: 1000})
	if err == nil {
		p.t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	}
	return conn, err
}

// fake is a node made of raw frames.
type fake struct {
	t       testing.TB
	id      capabilities.NodeID
	conn    *quic.Conn
	control *quic.Stream
	reader  *wire.Reader
}

func (p *plane) fake(id capabilities.NodeID, key ed25519.PrivateKey) *fake {
	p.t.Helper()
	cert, err := p.site.CertifyNode(id, key.Public().(ed25519.PublicKey), time.Now())
	must(p.t, err)
	conn, err := p.dial(key, cert, wire.ALPN)
	must(p.t, err)
	control, err := conn.OpenStreamSync(context.Background())
	must(p.t, err)
	_ = control.SetReadDeadline(time.Now().Add(patience))
	return &fake{p.t, id, conn, control, wire.NewReader(control, wire.KindHelloAck, wire.KindHeartbeatAck, wire.KindRotateAnswer, wire.KindAllowlist)}
}

// connected is a fake that has said hello and what it offers.
func (p *plane) connected() *fake {
	p.t.Helper()
	id, key := p.enrolled()
	f := p.fake(id, key)
	must(p.t, wire.Write(f.control, &wire.Hello{Version: 1, MinVersion: 1, Node: id}))
	_, err := f.reader.Next()
	must(p.t, err)
	must(p.t, wire.Write(f.control, &wire.Readiness{}))
	p.awaitConnected(id)
	return f
}

func (p *plane) awaitConnected(id capabilities.NodeID) {
	p.t.Helper()
	p.await(func() bool { v, err := p.View(id); return err == nil && v.Connected })
}

func (p *plane) awaitGone(id capabilities.NodeID) {
	p.t.Helper()
	p.await(func() bool { v, err := p.View(id); return err != nil || !v.Connected })
}

func (p *plane) await(ok func() bool) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		changed := p.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			p.t.Fatal("it did not happen")
		}
	}
}

// closedWith waits for the gateway to close the connection and returns its code.
func closedWith(t testing.TB, conn *quic.Conn) wire.CloseCode {
	t.Helper()
	select {
	case <-conn.Context().Done():
	case <-time.After(patience):
		t.Fatal("the gateway did not close")
	}
	var closed *quic.ApplicationError
	if cause := context.Cause(conn.Context()); !errors.As(cause, &closed) || !closed.Remote {
		t.Fatalf("closed by %v", cause)
	}
	return wire.CloseCode(closed.ErrorCode)
}

// header is a frame's header without its body.
func header(kind wire.Kind, size uint32) []byte {
	return append(binary.BigEndian.AppendUint32(nil, size), byte(kind))
}

func frame(t testing.TB, m wire.Message) []byte {
	t.Helper()
	b, err := wire.Encode(m)
	must(t, err)
	return b
}

func ticket(id capabilities.NodeID) *wire.Ticket {
	return &wire.Ticket{Call: "c", Tool: "tool.a.b", Capability: "tyrum.a.b", Node: id, Args: []byte(`{}`), ArgsDigest: sha256.Sum256([]byte(`{}`)), LifetimeMS: 1, DeadlineMS: 1}
}
