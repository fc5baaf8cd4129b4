package nodes

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// A caller that has no certificate, or one of another site, or speaks another protocol, does not
// get past the TLS handshake.
func TestStrangersStayOutside(t *testing.T) {
	p := newPlane(t, nil)
	key, err := pairing.NewKey()
	must(t, err)
	otherKey, err := pairing.NewKey()
	must(t, err)
	other, err := pairing.NewSite(otherKey)
	must(t, err)
	foreign, err := other.CertifyNode("n1", key.Public().(ed25519.PublicKey), time.Now())
	must(t, err)
	ended, err := p.site.CertifyNode("n1", key.Public().(ed25519.PublicKey), time.Now().Add(-2*pairing.LeafLifetime))
	must(t, err)
	posing, err := p.site.CertifyGateway(key.Public().(ed25519.PublicKey), time.Now())
	must(t, err)
	self, err := pairing.SelfSigned(key, time.Now())
	must(t, err)

	attempts := map[string]func() (*quic.Conn, error){
		"no certificate":           func() (*quic.Conn, error) { return p.dial(nil, nil, wire.ALPN) },
		"another site":             func() (*quic.Conn, error) { return p.dial(key, foreign, wire.ALPN) },
		"ended":                    func() (*quic.Conn, error) { return p.dial(key, ended, wire.ALPN) },
		"a gateway's":              func() (*quic.Conn, error) { return p.dial(key, posing, wire.ALPN) },
		"another protocol":         func() (*quic.Conn, error) { return p.dial(key, self, "h3") },
		"a key it does not really": func() (*quic.Conn, error) { return p.dial(otherKey, self, wire.ALPN) },
	}
	for name, attempt := range attempts {
		conn, err := attempt()
		if err == nil { // in TLS 1.3 the client is done before the server has looked at it
			select {
			case <-conn.Context().Done():
				err = context.Cause(conn.Context())
			case <-time.After(patience):
			}
		}
		var alert *quic.TransportError
		if err == nil || (errors.As(err, &alert) && alert.Remote && alert.ErrorCode < 0x100) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(p.Views()) != 0 {
		t.Error("somebody came into the roster")
	}
}

// A device that joins can say one offer; anything else closes.
func TestHostileJoining(t *testing.T) {
	p := newPlane(t, nil)
	inv, _, err := p.Invite(context.Background(), InviteSpec{AutoApprove: true})
	must(t, err)
	for name, data := range map[string][]byte{
		"a hello":             frame(t, &wire.Hello{Version: 1, MinVersion: 1, Node: "n1"}),
		"an oversized offer":  {0xff, 0xff, 0xff, 0xff},
		"garbage":             append([]byte{0, 0, 0, 200}, bytes.Repeat([]byte{0xa5}, 200)...),
		"an approval":         frame(t, &wire.Approved{Node: "n1", Cert: []byte{1}}),
		"a proof made of air": offerOf(string(inv.ID)),
	} {
		key, err := pairing.NewKey()
		must(t, err)
		self, err := pairing.SelfSigned(key, time.Now())
		must(t, err)
		conn, err := p.dial(key, self, wire.ALPN)
		must(t, err)
		stream, err := conn.OpenStreamSync(context.Background())
		must(t, err)
		_, err = stream.Write(data)
		must(t, err)
		_ = stream.Close()
		answer := make([]byte, 4096)
		_ = stream.SetReadDeadline(time.Now().Add(patience))
		n, _ := stream.Read(answer) // a refusal, or the end
		if bytes.Contains(answer[:n], []byte("approved")) {
			t.Errorf("%s was answered %q", name, answer[:n])
		}
		_ = conn.CloseWithError(0, "")
	}
	if len(p.Views()) != 0 {
		t.Error("somebody came into the roster")
	}
	if list, err := p.Invites(context.Background()); err != nil || list[0].Used != 0 {
		t.Errorf("the invitation was spent: %+v, %v", list, err)
	}
}

func offerOf(invite string) []byte {
	var body []byte
	for _, f := range []string{"handrail offer 1", string(make([]byte, 32)), invite, "", "", "", "", ""} {
		body = append(append(body, 0, byte(len(f))), f...)
	}
	return append([]byte{0, 0, 0, byte(len(body))}, body...)
}

func TestHostileHello(t *testing.T) {
	p := newPlane(t, nil)
	id, key := p.enrolled()
	for name, c := range map[string]struct {
		data []byte
		want wire.CloseCode
	}{
		"oversized":            {header(wire.KindHello, 1<<31), wire.CloseProtocol},
		"garbage":              {append(header(wire.KindHello, 3), 1, 2, 3), wire.CloseProtocol},
		"no such kind":         {header(200, 0), wire.CloseProtocol},
		"not a hello":          {frame(t, &wire.Heartbeat{Seq: 1}), wire.CloseProtocol},
		"for another node":     {frame(t, &wire.Hello{Version: 1, MinVersion: 1, Node: "n0"}), wire.CloseProtocol},
		"of a version to come": {frame(t, &wire.Hello{Version: 9, MinVersion: 8, Node: id}), wire.CloseVersion},
	} {
		f := p.fake(id, key)
		_, err := f.control.Write(c.data)
		must(t, err)
		if got := closedWith(t, f.conn); got != c.want {
			t.Errorf("%s: closed with %d, want %d", name, got, c.want)
		}
		if v, _ := p.View(id); v.Connected {
			t.Errorf("%s: connected", name)
		}
	}
	// A newer node that still speaks our version is welcome, in our version.
	f := p.fake(id, key)
	must(t, wire.Write(f.control, &wire.Hello{Version: 9, MinVersion: 1, Node: id}))
	m, err := f.reader.Next()
	must(t, err)
	if ack := m.(*wire.HelloAck); ack.Version != wire.Version {
		t.Errorf("%+v", ack)
	}
}

func TestHostileControlFrames(t *testing.T) {
	p := newPlane(t, nil)
	for name, data := range map[string][]byte{
		"oversized":    header(wire.KindReadiness, 1<<31),
		"garbage":      append(header(wire.KindHeartbeat, 4), 0xde, 0xad, 0xbe, 0xef),
		"a second one": frame(t, &wire.Hello{Version: 1, MinVersion: 1, Node: "n1"}),
		"not its own":  frame(t, &wire.Allowlist{Capabilities: []string{"*"}}),
		"an answer":    frame(t, &wire.Answer{Status: "ok"}),
	} {
		f := p.connected()
		_, err := f.control.Write(data)
		must(t, err)
		if got := closedWith(t, f.conn); got != wire.CloseProtocol {
			t.Errorf("%s: closed with %d", name, got)
		}
		p.awaitGone(f.id)
		if v, _ := p.View(f.id); len(v.Allow) != 0 {
			t.Errorf("%s: it allowed itself %v", name, v.Allow)
		}
	}
}

// A node may open its control stream and nothing more.
func TestNodeCannotFloodStreams(t *testing.T) {
	p := newPlane(t, nil)
	f := p.connected()
	for range 10 {
		if _, err := f.conn.OpenStream(); err != nil {
			var limit *quic.StreamLimitReachedError
			if !errors.As(err, &limit) {
				t.Errorf("%v", err)
			}
			if _, err := f.conn.OpenUniStream(); err == nil {
				t.Error("it opened a one-way stream")
			}
			return
		}
	}
	t.Error("there is no limit")
}

func TestHostileAnswers(t *testing.T) {
	p := newPlane(t, nil)
	f := p.connected()
	ok := frame(t, &wire.Answer{Status: "ok", Output: []byte(`{}`)})
	blob := frame(t, &wire.Answer{Status: "ok", Blobs: []wire.BlobHead{{Field: "x", Size: 3}}})
	chunk := func(b string) []byte { return append(header(wire.KindChunk, uint32(len(b))), b...) }
	for name, c := range map[string]struct {
		do   func(s *quic.Stream)
		want capabilities.Code
	}{
		"good":              {func(s *quic.Stream) { _, _ = s.Write(ok); _ = s.Close() }, ""},
		"good, never ended": {func(s *quic.Stream) { _, _ = s.Write(ok) }, ""},
		"good, and more":    {func(s *quic.Stream) { _, _ = s.Write(append(bytes.Clone(ok), ok...)); _ = s.Close() }, ""},
		"nothing":           {func(s *quic.Stream) { _ = s.Close() }, capabilities.CodeUnknownOutcome},
		"half":              {func(s *quic.Stream) { _, _ = s.Write(ok[:len(ok)-1]); _ = s.Close() }, capabilities.CodeUnknownOutcome},
		"oversized":         {func(s *quic.Stream) { _, _ = s.Write(header(wire.KindAnswer, 1<<31)) }, capabilities.CodeUnknownOutcome},
		"garbage":           {func(s *quic.Stream) { _, _ = s.Write(append(header(wire.KindAnswer, 3), 1, 2, 3)) }, capabilities.CodeUnknownOutcome},
		"a ticket":          {func(s *quic.Stream) { _, _ = s.Write(frame(t, ticket(f.id))) }, capabilities.CodeUnknownOutcome},
		"other bytes":       {func(s *quic.Stream) { _, _ = s.Write(append(bytes.Clone(blob), chunk("abc")...)) }, capabilities.CodeUnknownOutcome},
		"too many bytes":    {func(s *quic.Stream) { _, _ = s.Write(append(bytes.Clone(blob), chunk("abcd")...)) }, capabilities.CodeUnknownOutcome},
		"bytes cut off":     {func(s *quic.Stream) { _, _ = s.Write(append(bytes.Clone(blob), chunk("ab")...)); _ = s.Close() }, capabilities.CodeUnknownOutcome},
		"refused":           {func(s *quic.Stream) { s.CancelWrite(wire.ResetRefused) }, capabilities.CodeNodeDisconnected},
		"not understood":    {func(s *quic.Stream) { s.CancelWrite(wire.ResetProtocol) }, capabilities.CodeTicketInvalid},
		"reset":             {func(s *quic.Stream) { s.CancelWrite(77) }, capabilities.CodeUnknownOutcome},
	} {
		served := make(chan struct{})
		go func() {
			defer close(served)
			s, err := f.conn.AcceptStream(context.Background())
			if err != nil {
				return
			}
			if _, err := wire.NewReader(s, wire.KindTicket).Next(); err == nil {
				c.do(s)
			}
		}()
		answer, _, err := p.Dispatch(context.Background(), f.id, ticket(f.id), nil)
		if capabilities.CodeOf(err) != c.want || (err != nil && answer.Status != "") {
			t.Errorf("%s: %+v, %v; want %q", name, answer, err, c.want)
		}
		<-served
	}
	if v, _ := p.View(f.id); !v.Connected {
		t.Error("one bad stream cost the connection")
	}
}

// A node that stops speaking is put out, although its QUIC is alive.
func TestSilentNode(t *testing.T) {
	p := newPlane(t, func(o *Options) { o.Heartbeat = time.Second })
	f := p.connected()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // its QUIC stays lively
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				_, _ = f.control.Write([]byte{0})
			}
		}
	}()
	if got := closedWith(t, f.conn); got != wire.CloseHeartbeat && got != wire.CloseProtocol {
		t.Errorf("closed with %d", got)
	}
	p.awaitGone(f.id)
}

// Connections that are nobody are bounded, and the bound does not touch nodes.
func TestUnknownConnectionsAreBounded(t *testing.T) {
	p := newPlane(t, func(o *Options) { o.MaxUnknown = 1 })
	f := p.connected()
	id, key := p.enrolled()
	silent := p.fake(id, key)
	p.awaitHeld(p.arriving, 1)
	cert, err := p.site.CertifyNode(id, key.Public().(ed25519.PublicKey), time.Now())
	must(t, err)
	second, err := p.dial(key, cert, wire.ALPN)
	if err == nil {
		if got := closedWith(t, second); got != wire.CloseOverloaded {
			t.Errorf("closed with %d", got)
		}
	}
	if v, _ := p.View(f.id); !v.Connected {
		t.Error("the node was put out")
	}
	_ = silent.conn.CloseWithError(0, "")
	p.awaitHeld(p.arriving, 0)
	p.connected()
}

// Strangers that fill their slots keep strangers out, not the site's nodes.
func TestStrangersKeepNoNodeOut(t *testing.T) {
	p := newPlane(t, func(o *Options) { o.MaxUnknown = 1 })
	stranger := func() (*quic.Conn, error) {
		key, err := pairing.NewKey()
		must(t, err)
		cert, err := pairing.SelfSigned(key, time.Now())
		must(t, err)
		return p.dial(key, cert, wire.ALPN)
	}
	silent, err := stranger()
	must(t, err)
	p.awaitHeld(p.unknown, 1)
	if second, err := stranger(); err == nil {
		if got := closedWith(t, second); got != wire.CloseOverloaded {
			t.Errorf("closed with %d", got)
		}
	}
	p.connected()
	_ = silent.CloseWithError(0, "")
	p.awaitHeld(p.unknown, 0)
}

func (p *plane) awaitHeld(slots chan struct{}, n int) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for len(slots) != n {
		if time.Now().After(deadline) {
			p.t.Fatalf("%d slots are held, want %d", len(slots), n)
		}
		time.Sleep(time.Millisecond) // there is no event to wait for
	}
}

func TestPendingIsBounded(t *testing.T) {
	p := newPlane(t, func(o *Options) { o.MaxPending = 1 })
	inv, _, err := p.Invite(context.Background(), InviteSpec{Uses: 2})
	must(t, err)
	for i, want := range []capabilities.Code{"", capabilities.CodeOverloaded} {
		key, err := pairing.NewKey()
		must(t, err)
		_, err = p.enrol(context.Background(), &inv, pairing.Profile{}, key.Public().(ed25519.PublicKey))
		if capabilities.CodeOf(err) != want {
			t.Errorf("device %d: %v", i, err)
		}
	}
	if list, err := p.Invites(context.Background()); err != nil || list[0].Used != 1 {
		t.Errorf("a refused device spent the invitation: %+v, %v", list, err)
	}
}

func TestRotationNeedsProof(t *testing.T) {
	p := newPlane(t, nil)
	f := p.connected()
	key, err := pairing.NewKey()
	must(t, err)
	pub := key.Public().(ed25519.PublicKey)
	state := f.conn.ConnectionState().TLS
	binding, err := state.ExportKeyingMaterial(pairing.ExporterLabel, nil, 32)
	must(t, err)
	ask := func(pub ed25519.PublicKey, proof []byte) *wire.RotateAnswer {
		must(t, wire.Write(f.control, &wire.Rotate{PublicKey: pub, Proof: proof}))
		m, err := f.reader.Next()
		must(t, err)
		return m.(*wire.RotateAnswer)
	}
	other := p.connected()
	otherKey := p.lookup(other.id).key
	for name, c := range map[string]struct {
		pub   ed25519.PublicKey
		proof []byte
	}{
		"for another node":        {pub, ed25519.Sign(key, pairing.RotationStatement(p.site.ID(), "n0", binding))},
		"on another connection":   {pub, ed25519.Sign(key, pairing.RotationStatement(p.site.ID(), f.id, make([]byte, 32)))},
		"somebody else's key":     {otherKey, ed25519.Sign(key, pairing.RotationStatement(p.site.ID(), f.id, binding))},
		"a signature made of air": {pub, make([]byte, 64)},
	} {
		if a := ask(c.pub, c.proof); a.Code == "" || a.Cert != nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
	good := ed25519.Sign(key, pairing.RotationStatement(p.site.ID(), f.id, binding))
	if a := ask(pub, good); a.Code != "" {
		t.Errorf("%+v", a)
	}
	if r := p.lookup(f.id); !pub.Equal(r.nextKey) || pub.Equal(r.key) {
		t.Error("the old key ended before the new one was used")
	}
}

// A revocation that cannot be written still holds in this process, and says so.
func TestRevokeHoldsWhenItCanNotBeWritten(t *testing.T) {
	full := errors.New("disk full")
	broken := false
	p := newPlane(t, func(o *Options) {
		o.Record = func(*store.Tx, string, capabilities.NodeID, any) error {
			if broken {
				return full
			}
			return nil
		}
	})
	f := p.connected()
	broken = true
	if _, err := p.Revoke(context.Background(), f.id, "admin", ""); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if got := closedWith(t, f.conn); got != wire.CloseRevoked {
		t.Errorf("closed with %d", got)
	}
	_, err := p.View(f.id)
	must(t, err)
	p.awaitGone(f.id)
	if v, _ := p.View(f.id); v.State != pairing.StateRevoked {
		t.Errorf("%+v", v)
	}
	// The error's advice is possible: revoked again, it is on disk; then it ended.
	broken = false
	if _, err := p.Revoke(context.Background(), f.id, "admin", ""); err != nil {
		t.Errorf("revoked again: %v", err)
	}
	var kept pairing.State
	must(t, p.opts.Store.Read().QueryRow(`SELECT state FROM node WHERE node_id = $1`, string(f.id)).Scan(&kept))
	if kept != pairing.StateRevoked {
		t.Errorf("a restart would find the node %s", kept)
	}
	if _, err := p.Revoke(context.Background(), f.id, "admin", ""); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("revoked for the third time: %v", err)
	}
	// And a decision that cannot be written is none.
	inv, _, err := func() (Invite, pairing.Paste, error) {
		broken = false
		return p.Invite(context.Background(), InviteSpec{})
	}()
	must(t, err)
	key, err := pairing.NewKey()
	must(t, err)
	r, err := p.enrol(context.Background(), &inv, pairing.Profile{}, key.Public().(ed25519.PublicKey))
	must(t, err)
	broken = true
	if _, err := p.Approve(context.Background(), r.id, Approval{}); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if v, _ := p.View(r.id); v.State != pairing.StatePending {
		t.Errorf("%+v", v)
	}
}

// In whatever order a revocation and a hello come, the node is out afterwards.
func TestRevokeAgainstHello(t *testing.T) {
	p := newPlane(t, nil)
	for range 20 {
		id, key := p.enrolled()
		f := p.fake(id, key)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_ = wire.Write(f.control, &wire.Hello{Version: 1, MinVersion: 1, Node: id})
		}()
		_, err := p.Revoke(context.Background(), id, "admin", "")
		must(t, err)
		<-sent
		if got := closedWith(t, f.conn); got != wire.CloseRevoked {
			t.Fatalf("closed with %d", got)
		}
		p.awaitGone(id)
	}
}

func TestSharedReadiness(t *testing.T) {
	p := newPlane(t, nil)
	a, b := p.connected(), p.connected()
	list := []capabilities.Readiness{{Capability: "tyrum.a.b"}, {Capability: "tyrum.a.c", Reason: capabilities.ReasonPermission}}
	must(t, wire.Write(a.control, &wire.Readiness{Capabilities: list}))
	must(t, wire.Write(b.control, &wire.Readiness{Capabilities: []capabilities.Readiness{list[1], list[0]}}))
	p.await(func() bool {
		p.mu.RLock()
		defer p.mu.RUnlock()
		return len(p.presence[a.id].readiness) == 2 && len(p.presence[b.id].readiness) == 2
	})
	p.mu.RLock()
	defer p.mu.RUnlock()
	x, y := p.presence[a.id].readiness, p.presence[b.id].readiness
	x["tyrum.probe"] = capabilities.Readiness{}
	if _, same := y["tyrum.probe"]; !same {
		t.Error("equal readiness is held twice")
	}
	delete(x, "tyrum.probe")
}

func TestSnapshotIsSharedUntilSomethingChanges(t *testing.T) {
	p := newPlane(t, nil)
	f := p.connected()
	a, b := p.Snapshot(), p.Snapshot()
	if &a[0] != &b[0] {
		t.Error("it was built twice")
	}
	changed := p.Changed()
	label := "new"
	_, err := p.Change(context.Background(), f.id, Edit{Label: &label})
	must(t, err)
	<-changed
	if c := p.Snapshot(); c[0].Summary.Label != "new" || a[0].Summary.Label != "" {
		t.Error("the old snapshot changed, or the new one did not")
	}
}
