package link

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// JoinOptions of Join.
type JoinOptions struct {
	Dir     string // required: where the identity is kept; mode 0700
	Profile pairing.Profile
	// Progress is told each step; default: nobody.
	Progress func(JoinStep)
	// Proxy and Transports are as in Options.
	Proxy      Proxy
	Transports []tunnel.Transport
	Backoff    Backoff      // between attempts; default as there
	Log        *slog.Logger // default: discards
}

// JoinStep is how far joining is.
type JoinStep struct {
	State       pairing.State // pending, then approved
	Node        capabilities.NodeID
	Fingerprint string // of this device's key, to compare with what the admin sees
	Err         error  // a failed attempt; another follows
}

// Join makes this device a node of the paste's site: it proves the paste, then waits, through cuts
// and restarts of the gateway, until a person has decided. The former contents of Dir are replaced
// once the gateway took the paste, not earlier. If it is interrupted while it waits, the identity
// in Dir is pending and Run goes on waiting with it.
//
// Errors carry the gateway's code: paste_invalid, paste_expired, paste_used,
// pairing_denied, site_mismatch, …; or ctx's error.
func Join(ctx context.Context, paste pairing.Paste, o JoinOptions) (*Identity, error) {
	if o.Dir == "" {
		return nil, errors.New("link: Dir is required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(JoinStep) {}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	// A key of its own for each joining: no two nodes, and no two sites, share one.
	// A repetition of the same paste after a crash finds the same key, and so the
	// gateway finds the same node.
	key, _, err := pairing.LoadOrCreateKey(filepath.Join(o.Dir, nextKeyFile))
	if err != nil {
		return nil, err
	}
	id := &Identity{Site: paste.Site, Addrs: paste.Addrs, Key: key}
	j := &joining{dialer: newDialer(o.Proxy, o.Transports), id: id, dir: o.Dir, profile: o.Profile, secret: paste.Secret,
		door: paste.Door, step: o.Progress}
	// The first attempt has a person in front of it: whatever fails is told.
	err = j.attempt(ctx)
	wait := o.Backoff.start()
	for err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if id.Node == "" || permanent(err) {
			return nil, explain(err)
		}
		o.Log.Info("node.join_retry", "err", err)
		o.Progress(JoinStep{State: pairing.StatePending, Node: id.Node, Fingerprint: fingerprintOf(key), Err: explain(err)})
		if !wait.pause(ctx) {
			return nil, ctx.Err()
		}
		err = j.attempt(ctx)
	}
	return id, nil
}

// joining brings an identity without certificate to one with it.
type joining struct {
	dialer  *dialer
	id      *Identity
	dir     string
	profile pairing.Profile
	secret  pairing.Secret // none: the gateway knows the key already
	door    *pairing.Door  // of the paste; nil: it had none
	step    func(JoinStep)
}

// attempt makes one connection and stays on it until the identity has its
// certificate, the gateway says no, or the connection ends.
func (j *joining) attempt(ctx context.Context) error {
	to, err := j.dialer.dial(ctx, j.id.Addrs, j.id.Site, j.id.Key, nil)
	if err != nil {
		return err
	}
	defer to.close(wire.CloseDone)
	conn := to.Conn
	stop := context.AfterFunc(ctx, func() { closeWith(conn, wire.CloseDone) })
	defer stop()
	helloCtx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	stream, err := conn.OpenStreamSync(helloCtx)
	if err != nil {
		return connError(conn, err)
	}
	_ = stream.SetDeadline(time.Now().Add(helloTimeout))
	state := conn.ConnectionState().TLS
	binding, err := state.ExportKeyingMaterial(pairing.ExporterLabel, nil, 32)
	if err != nil {
		return err
	}
	pub := j.id.Key.Public().(ed25519.PublicKey)
	verdict, err := pairing.Join(stream, pairing.Session{Binding: binding, Node: pub}, j.secret, j.profile)
	if err != nil {
		return connError(conn, err)
	}
	if j.id.Node != verdict.Node || !j.secret.IsZero() {
		// The paste is spent: from here on the key alone says who we are.
		j.id.Node = verdict.Node
		if host := to.reached(); host != "" && j.door != nil {
			j.id.Door = Door{Addr: j.door.At(host), Sum: j.door.Sum[:]}
		}
		if err := j.id.save(j.dir); err != nil {
			return err
		}
		j.secret = pairing.Secret{}
	}
	j.step(JoinStep{State: verdict.State, Node: verdict.Node, Fingerprint: pairing.Fingerprint(pub)})
	if err := verdict.State.Code(); err != "" && verdict.State != pairing.StatePending {
		return &capabilities.Error{Code: err}
	}
	_ = stream.SetDeadline(time.Time{}) // a person may take hours
	m, err := j.await(conn, stream)
	if err != nil {
		return err
	}
	cert, err := certificateFor(m.Cert, j.id.Key, j.id.Site)
	if err != nil {
		return err
	}
	j.id.Cert, j.id.Label, j.id.Trust = cert, m.Label, m.Trust
	if err := j.id.save(j.dir); err != nil {
		return err
	}
	j.step(JoinStep{State: pairing.StateApproved, Node: j.id.Node, Fingerprint: pairing.Fingerprint(pub)})
	return nil
}

// await waits for the approval. The gateway sends nothing meanwhile, so the
// connection is kept alive by QUIC itself.
func (j *joining) await(conn *quic.Conn, stream *quic.Stream) (*wire.Approved, error) {
	m, err := wire.NewReader(stream, wire.KindApproved).Next()
	if err != nil {
		return nil, connError(conn, err)
	}
	approved := m.(*wire.Approved)
	if approved.Node != j.id.Node {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the gateway approved another node")
	}
	return approved, nil
}

// certificateFor reads a certificate the gateway made and sees that it is for our
// key. That it is of our site the connection it came on has proved.
func certificateFor(der []byte, key ed25519.PrivateKey, site capabilities.SiteID) (*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "the gateway sent no certificate")
	}
	pub, ok := cert.PublicKey.(ed25519.PublicKey)
	if !ok || !pub.Equal(key.Public()) || len(cert.URIs) != 1 || cert.URIs[0].Host != string(site) {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the gateway sent a certificate that is not ours")
	}
	return cert, nil
}

// connError prefers the reason the connection was closed for over what a stream
// says about it.
func connError(conn *quic.Conn, err error) error {
	if cause := context.Cause(conn.Context()); cause != nil {
		if _, ok := refusal(cause); ok {
			return cause
		}
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// permanent reports whether trying again cannot help until a person acts.
func permanent(err error) bool {
	if code, ok := refusal(err); ok {
		return code.Permanent()
	}
	switch capabilities.CodeOf(err) {
	case capabilities.CodeNodeRevoked, capabilities.CodePairingDenied, capabilities.CodeNodeNotPaired, capabilities.CodeSiteMismatch,
		capabilities.CodePasteInvalid, capabilities.CodePasteExpired, capabilities.CodePasteUsed, capabilities.CodeVersionSkew:
		return true
	}
	return false
}
