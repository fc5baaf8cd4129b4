package bus

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/pairing"
)

// A server elsewhere asks the gateway who may connect, by NATS's auth callout: it knows the
// gateway's key and the key that answers are signed with, and nothing of satellites.
const authSubject = "$SYS.REQ.USER.AUTH"

// passTime is how long a server elsewhere lets somebody in without asking again. A satellite that
// is revoked gets no call from then on and nothing that it says counts; where the gateway may not
// end its connection, that ends within this time.
const passTime = 5 * time.Minute

// kickSubject is where a server takes the order to end a connection, in its system account.
const kickSubject = "$SYS.REQ.SERVER.%s.KICK"

// Keys are the public keys that a server elsewhere has to know.
type Keys struct {
	Gateway string // user nkey of the gateway
	Issuer  string // account nkey that signs who may connect
	System  string // user nkey that may end connections, where the server lets it
}

// Keys returns the keys for a server elsewhere; they are made at the first time.
func (b *Bus) Keys() (k Keys, err error) {
	for _, one := range []struct {
		into *string
		load func() (nkeys.KeyPair, error)
	}{{&k.Gateway, b.gatewayPair}, {&k.Issuer, b.issuerPair}, {&k.System, b.systemPair}} {
		pair, err := one.load()
		if err != nil {
			return Keys{}, err
		}
		if *one.into, err = pair.PublicKey(); err != nil {
			return Keys{}, err
		}
	}
	return k, nil
}

func (b *Bus) gatewayPair() (nkeys.KeyPair, error) {
	return loadPair(filepath.Join(b.opts.Dir, "bus.nk"), nkeys.PrefixByteUser)
}

func (b *Bus) issuerPair() (nkeys.KeyPair, error) {
	return loadPair(filepath.Join(b.opts.Dir, "bus-issuer.nk"), nkeys.PrefixByteAccount)
}

func (b *Bus) systemPair() (nkeys.KeyPair, error) {
	return loadPair(filepath.Join(b.opts.Dir, "bus-system.nk"), nkeys.PrefixByteUser)
}

func loadPair(path string, kind nkeys.PrefixByte) (nkeys.KeyPair, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		return nkeys.FromSeed([]byte(strings.TrimSpace(string(data))))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	pair, err := nkeys.CreatePair(kind)
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	return pair, pairing.SaveFile(path, append(seed, '\n'))
}

// elsewhere adds what a connection to a server elsewhere needs.
func (b *Bus) elsewhere(options []nats.Option) (_ []nats.Option, err error) {
	if b.own, err = b.gatewayPair(); err != nil {
		return nil, err
	}
	if b.issuer, err = b.issuerPair(); err != nil {
		return nil, err
	}
	if b.id, err = b.own.PublicKey(); err != nil {
		return nil, err
	}
	return append(append(options, nats.Timeout(5*time.Second)), b.secure()...), nil
}

func (b *Bus) secure() []nats.Option {
	if b.opts.TLS == nil {
		return nil
	}
	return []nats.Option{nats.Secure(b.opts.TLS)}
}

// kickElsewhere has the server elsewhere end a connection of a satellite. It is asked in its system
// account, with a key that may do nothing else, over a connection for this one order.
func (b *Bus) kickElsewhere(server string, client uint64) error {
	pair, err := b.systemPair()
	if err != nil {
		return err
	}
	key, err := pair.PublicKey()
	if err != nil {
		return err
	}
	conn, err := nats.Connect(b.opts.URL, append(b.secure(), nats.Nkey(key, pair.Sign), nats.Name("gateway, ends a connection"),
		nats.NoReconnect(), nats.Timeout(2*time.Second))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	order, err := json.Marshal(natsserver.KickClientReq{CID: client})
	if err != nil {
		return err
	}
	_, err = conn.Request(fmt.Sprintf(kickSubject, server), order, 2*time.Second)
	return err // what it answers is that it did, or that there is no such connection
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "4222")
	}
	return u.Host
}

// admits answers a server elsewhere that asks who may connect.
func (b *Bus) admits(m *nats.Msg) {
	ask, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
	if err != nil || m.Reply == "" {
		return
	}
	answer := jwt.NewAuthorizationResponseClaims(ask.UserNkey)
	answer.Audience = ask.Server.ID
	if token, err := b.passFor(ask); err != nil {
		answer.Error = "not admitted"
		b.opts.Log.Warn("bus.not_admitted", "err", err)
	} else {
		answer.Jwt = token
	}
	text, err := answer.Encode(b.issuer)
	if err != nil {
		b.opts.Log.Error("bus.admits", "err", err)
		return
	}
	_ = m.Respond([]byte(text)) // the server refuses who is not answered for
}

func (b *Bus) passFor(ask *jwt.AuthorizationRequestClaims) (string, error) {
	sig, err := base64.RawURLEncoding.DecodeString(ask.ConnectOptions.SignedNonce)
	if err != nil {
		if sig, err = base64.StdEncoding.DecodeString(ask.ConnectOptions.SignedNonce); err != nil {
			return "", err
		}
	}
	if len(sig) != ed25519.SignatureSize {
		return "", capabilities.Errorf(capabilities.CodeUnauthenticated, "no signature")
	}
	key := ask.ConnectOptions.Nkey
	if err := verify(key, []byte(ask.ClientInformation.Nonce), sig); err != nil {
		return "", err
	}
	p, ok := b.admit(key)
	if !ok || p.all {
		return "", capabilities.Errorf(capabilities.CodeForbidden, "this key is not admitted")
	}
	if p.of != nil {
		b.mu.Lock()
		out := p.of.state != route.StateApproved // decided meanwhile
		p.of.server, p.of.client = ask.Server.ID, ask.ClientInformation.ID
		if !p.of.seen.IsZero() {
			p.of.drop() // it was here before: what it answered in between went nowhere
		}
		b.mu.Unlock()
		if out {
			return "", capabilities.Errorf(capabilities.CodeForbidden, "this satellite was put out")
		}
	}
	if p.worker != "" {
		b.askers.entered(p.worker, ask.Server.ID, ask.ClientInformation.ID)
	}
	user := jwt.NewUserClaims(ask.UserNkey)
	user.Name, user.Audience = key, "$G"
	user.Pub.Allow.Add(p.publish...)
	user.Sub.Allow.Add(p.hear...)
	until := b.opts.Now().Add(passTime)
	if !p.until.IsZero() && p.until.Before(until) {
		until = p.until
	}
	user.Expires = until.Unix()
	return user.Encode(b.issuer)
}
