package link

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
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

// fakeGateway speaks raw frames under a real site's certificate.
type fakeGateway struct {
	t        testing.TB
	site     *pairing.Site
	listener *quic.Listener
}

func newFakeGateway(t testing.TB) *fakeGateway {
	t.Helper()
	siteKey, err := pairing.NewKey()
	must(t, err)
	site, err := pairing.NewSite(siteKey)
	must(t, err)
	key, err := pairing.NewKey()
	must(t, err)
	leaf, err := site.CertifyGateway(key.Public().(ed25519.PublicKey), time.Now())
	must(t, err)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	transport := &quic.Transport{Conn: udp}
	listener, err := transport.Listen(&tls.Config{
		NextProtos: []string{wire.ALPN}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, site.Root().Raw}, PrivateKey: key}},
	}, nil)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close(); _ = transport.Close(); _ = udp.Close() })
	return &fakeGateway{t, site, listener}
}

// node returns a link whose identity the site has approved.
func (g *fakeGateway) node(tune func(*Options)) *Link {
	g.t.Helper()
	dir := g.t.TempDir()
	key, _, err := pairing.LoadOrCreateKey(filepath.Join(dir, keyFile))
	must(g.t, err)
	id := &Identity{Site: g.site.ID(), Node: pairing.NewNodeID(), Addrs: []string{g.listener.Addr().String()}, Key: key}
	id.Cert, err = g.site.CertifyNode(id.Node, key.Public().(ed25519.PublicKey), time.Now())
	must(g.t, err)
	must(g.t, id.save(dir))
	o := Options{
		Dir: dir,
		Serve: func(_ context.Context, tk *wire.Ticket, sink Sink) {
			sink.Answer(wire.Answer{Status: capabilities.StatusOK, Output: tk.Args}, nil)
		},
		Journal:   func(context.Context, *wire.JournalAsk) []wire.JournalState { return nil },
		Hello:     func() wire.Hello { return wire.Hello{} },
		Readiness: func(context.Context) []capabilities.Readiness { return nil },
		Backoff:   Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond},
	}
	if tune != nil {
		tune(&o)
	}
	l, err := New(o)
	must(g.t, err)
	return l
}

func (g *fakeGateway) run(l *Link) chan error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() { done <- l.Run(ctx); close(ended) }()
	g.t.Cleanup(func() { cancel(); <-ended })
	return done
}

// accept takes the next connection and its hello.
func (g *fakeGateway) accept() (*quic.Conn, *quic.Stream) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := g.listener.Accept(ctx)
	must(g.t, err)
	g.t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	control, err := conn.AcceptStream(ctx)
	must(g.t, err)
	_, err = wire.NewReader(control, wire.KindHello).Next()
	must(g.t, err)
	return conn, control
}

var ack = &wire.HelloAck{Version: 1, Gateway: "g1", HeartbeatMS: 10_000}

func closedWith(t testing.TB, conn *quic.Conn) wire.CloseCode {
	t.Helper()
	select {
	case <-conn.Context().Done():
	case <-time.After(patience):
		t.Fatal("the node did not close")
	}
	var closed *quic.ApplicationError
	if cause := context.Cause(conn.Context()); !errors.As(cause, &closed) || !closed.Remote {
		t.Fatalf("closed by %v", cause)
	}
	return wire.CloseCode(closed.ErrorCode)
}

func header(kind wire.Kind, size uint32) []byte {
	return append(binary.BigEndian.AppendUint32(nil, size), byte(kind))
}

func frame(t testing.TB, m wire.Message) []byte {
	t.Helper()
	b, err := wire.Encode(m)
	must(t, err)
	return b
}

// The node, whatever a gateway says, neither crashes nor stays on the line, and
// comes back.
func TestHostileGateway(t *testing.T) {
	g := newFakeGateway(t)
	l := g.node(nil)
	g.run(l)
	for name, data := range map[string][]byte{
		"oversized":             header(wire.KindHelloAck, 1<<31),
		"garbage":               append(header(wire.KindHelloAck, 3), 1, 2, 3),
		"another frame":         frame(t, &wire.HeartbeatAck{Seq: 1}),
		"oversized, later":      append(frame(t, ack), header(wire.KindAllowlist, 1<<31)...),
		"garbage, later":        append(frame(t, ack), append(header(wire.KindStop, 4), 0xde, 0xad, 0xbe, 0xef)...),
		"a readiness, later":    append(frame(t, ack), frame(t, &wire.Readiness{})...),
		"an unasked rotation":   append(frame(t, ack), frame(t, &wire.RotateAnswer{Cert: []byte{1}})...),
		"a ticket on this line": append(frame(t, ack), frame(t, ticket())...),
	} {
		conn, control := g.accept()
		_, err := control.Write(data)
		must(t, err)
		code := closedWith(t, conn)
		if code != wire.CloseProtocol && code != wire.CloseDone {
			t.Errorf("%s: closed with %d", name, code)
		}
	}
	g.accept()
}

func ticket() *wire.Ticket {
	return &wire.Ticket{Call: "c", Tool: "tool.a.b", Capability: "tyrum.a.b", Node: "n", Args: []byte(`{}`), ArgsDigest: sha256.Sum256([]byte(`{}`)), LifetimeMS: 1, DeadlineMS: 1}
}

func TestHostileTickets(t *testing.T) {
	g := newFakeGateway(t)
	served := make(chan capabilities.CallID, 10)
	l := g.node(func(o *Options) {
		serve := o.Serve
		o.Serve = func(ctx context.Context, tk *wire.Ticket, sink Sink) { served <- tk.Call; serve(ctx, tk, sink) }
	})
	g.run(l)
	conn, control := g.accept()
	must(t, wire.Write(control, ack))
	good := frame(t, ticket())
	large := ticket()
	large.Args = bytes.Repeat([]byte("x"), wire.MaxArgs)
	for name, c := range map[string]struct {
		do   func(s *quic.Stream)
		want quic.StreamErrorCode
	}{
		"oversized": {func(s *quic.Stream) { _, _ = s.Write(header(wire.KindTicket, 1<<31)) }, wire.ResetProtocol},
		"garbage":   {func(s *quic.Stream) { _, _ = s.Write(append(header(wire.KindTicket, 3), 1, 2, 3)) }, wire.ResetProtocol},
		"an answer": {func(s *quic.Stream) { _, _ = s.Write(frame(t, &wire.Answer{Status: "ok"})) }, wire.ResetProtocol},
		"half":      {func(s *quic.Stream) { _, _ = s.Write(good[:len(good)-1]); _ = s.Close() }, wire.ResetRefused},
		"nothing":   {func(s *quic.Stream) { _ = s.Close() }, wire.ResetRefused},
		"taken back": {func(s *quic.Stream) {
			_, _ = s.Write(frame(t, large)[:wire.MaxArgs/2])
			s.CancelWrite(wire.ResetCancelled)
		}, wire.ResetRefused},
	} {
		s, err := conn.OpenStream()
		must(t, err)
		c.do(s)
		_ = s.SetReadDeadline(time.Now().Add(patience))
		var reset *quic.StreamError
		if _, err := s.Read(make([]byte, 1)); !errors.As(err, &reset) || reset.ErrorCode != c.want {
			t.Errorf("%s: %v, want reset %d", name, err, c.want)
		}
	}
	if len(served) != 0 {
		t.Errorf("%s was served", <-served)
	}
	// More after the ticket is not read, and does not hurt the call.
	s, err := conn.OpenStream()
	must(t, err)
	_, err = s.Write(append(bytes.Clone(good), good...))
	must(t, err)
	m, err := wire.NewReader(s, wire.KindAnswer).Next()
	if err != nil || string(m.(*wire.Answer).Output) != `{}` || len(served) != 1 {
		t.Errorf("%v, %v, %d served", m, err, len(served))
	}
	if conn.Context().Err() != nil {
		t.Error("a bad stream cost the connection")
	}
	if _, err := conn.OpenUniStream(); err == nil {
		t.Error("the gateway opened a one-way stream")
	}
}

// A gateway that goes silent while its QUIC lives is left.
func TestSilentGateway(t *testing.T) {
	g := newFakeGateway(t)
	g.run(g.node(nil))
	conn, control := g.accept()
	must(t, wire.Write(control, &wire.HelloAck{Version: 1, Gateway: "g1", HeartbeatMS: 20}))
	if code := closedWith(t, conn); code != wire.CloseHeartbeat {
		t.Errorf("closed with %d", code)
	}
	g.accept()
}

// The pinned site is asked for on every connection, not only while joining.
func TestAnotherSiteAtTheAddress(t *testing.T) {
	g, other := newFakeGateway(t), newFakeGateway(t)
	l := g.node(func(o *Options) { o.Addrs = []string{other.listener.Addr().String()} })
	select {
	case err := <-g.run(l):
		if capabilities.CodeOf(err) != capabilities.CodeSiteMismatch {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("it goes on trying")
	}
}

func TestClosesThatAreFinal(t *testing.T) {
	for code, want := range map[wire.CloseCode]capabilities.Code{
		wire.CloseRevoked: capabilities.CodeNodeRevoked, wire.CloseDenied: capabilities.CodePairingDenied, wire.CloseStaleKey: capabilities.CodeNodeRevoked,
		wire.CloseNotInRoster: capabilities.CodeNodeNotPaired, wire.CloseVersion: capabilities.CodeVersionSkew,
		wire.CloseOverloaded: "", wire.CloseTakenOver: "", wire.CloseDone: "", wire.CloseInternal: "", wire.CloseProtocol: "",
	} {
		g := newFakeGateway(t)
		var logged bytes.Buffer
		done := g.run(g.node(func(o *Options) {
			if want != "" { // then Run ends, and nobody writes while it is read
				o.Log = slog.New(slog.NewTextHandler(&logged, nil))
			}
		}))
		conn, _ := g.accept()
		closeWith(conn, code)
		if want == "" {
			g.accept() // it comes back
			continue
		}
		select {
		case err := <-done:
			if capabilities.CodeOf(err) != want {
				t.Errorf("close %d: %v, want %s", code, err, want)
			}
			if said := logged.String(); strings.Contains(said, string(want)) {
				t.Errorf("close %d: who gets the error is not the only one to tell it: %s", code, said)
			}
		case <-time.After(patience):
			t.Errorf("close %d: it goes on trying", code)
		}
	}
}

func TestGatewayOfAVersionToCome(t *testing.T) {
	g := newFakeGateway(t)
	done := g.run(g.node(nil))
	_, control := g.accept()
	must(t, wire.Write(control, &wire.HelloAck{Version: 99, Gateway: "g1", HeartbeatMS: 1}))
	select {
	case err := <-done:
		if capabilities.CodeOf(err) != capabilities.CodeVersionSkew {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("it goes on trying")
	}
}

// A node that is to end takes no call's end from it: the one that runs goes on and is answered.
func TestLeavingCutsNoCallOff(t *testing.T) {
	g := newFakeGateway(t)
	began, end := make(chan struct{}), make(chan struct{})
	var cut error
	l := g.node(func(o *Options) {
		serve := o.Serve
		o.ReadinessEvery = time.Millisecond
		o.Serve = func(ctx context.Context, tk *wire.Ticket, sink Sink) {
			close(began)
			<-end
			cut = ctx.Err()
			serve(ctx, tk, sink)
		}
	})
	done := g.run(l)
	conn, control := g.accept()
	must(t, wire.Write(control, &wire.HelloAck{Version: 1, Gateway: "g1", HeartbeatMS: 10_000, Program: "1.2.0"}))
	s, err := conn.OpenStream()
	must(t, err)
	_, err = s.Write(frame(t, ticket()))
	must(t, err)
	<-began
	l.Leave(0)
	l.Leave(time.Hour) // the first one counts
	select {
	case err := <-done:
		t.Fatalf("it ended while a call ran: %v", err)
	default:
	}
	close(end)
	m, err := wire.NewReader(s, wire.KindAnswer).Next()
	if err != nil || m.(*wire.Answer).Status != capabilities.StatusOK {
		t.Errorf("%+v, %v", m, err)
	}
	select {
	case err := <-done:
		if err != nil || cut != nil {
			t.Errorf("it ends with %v, the call's context with %v", err, cut)
		}
	case <-time.After(patience):
		t.Error("it goes on")
	}
}

func TestIdentityOnDisk(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadIdentity(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	g := newFakeGateway(t)
	dir = g.node(nil).opts.Dir
	id, err := LoadIdentity(dir)
	must(t, err)
	if id.Pending() || id.Site != g.site.ID() {
		t.Errorf("%+v", id)
	}
	good, err := os.ReadFile(filepath.Join(dir, identityFile))
	must(t, err)
	for i := range good { // no cut of the file is taken for an identity
		if i >= len(good)-2 { // the last brace and its line end
			break
		}
		must(t, os.WriteFile(filepath.Join(dir, identityFile), good[:i], 0o600))
		if id, err := LoadIdentity(dir); err == nil || id != nil {
			t.Fatalf("cut at %d: %+v, %v", i, id, err)
		}
	}
}

func TestBackoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{Min: time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Second)).Draw(t, "min"))}
		b.Max = b.Min + time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "more"))
		w := b.start()
		bound := b.Min
		for range 40 {
			d, rounding := w.NextBackOff(), bound/10_000
			if d < bound/10-rounding || d > bound+rounding {
				t.Fatalf("waits %v under a bound of %v", d, bound)
			}
			bound = min(2*bound, b.Max)
		}
		w.reset()
		if d := w.NextBackOff(); d > b.Min+b.Min/10_000 {
			t.Fatalf("waits %v after a success", d)
		}
		w.slow()
		if d := w.NextBackOff(); d < b.Max/10-b.Max/10_000 {
			t.Fatalf("waits %v when it is to be slow", d)
		}
	})
}

func TestPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if (Backoff{Min: time.Hour, Max: time.Hour}).start().pause(ctx) {
			t.Error("it waited to the end")
		}
		if !(Backoff{Min: time.Minute, Max: time.Minute}).start().pause(context.Background()) {
			t.Error("it did not wait")
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no options, no error")
	}
	if _, err := Join(context.Background(), pairing.Paste{}, JoinOptions{}); err == nil {
		t.Error("no folder, no error")
	}
}
