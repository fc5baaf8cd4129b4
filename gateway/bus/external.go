package bus

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/pairing"
)

// A server elsewhere asks the gateway who may connect, by NATS's auth callout: it knows the
// gateway's key and the key that answers are signed with, and nothing of satellites.
const authSubject = "$SYS.REQ.USER.AUTH"

// passTime is how long a server elsewhere lets somebody in without asking again: a satellite that
// is revoked gets no call from then on, and its connection ends within this time.
const passTime = 5 * time.Minute

// Keys are the public keys that a server elsewhere has to know.
type Keys struct {
	Gateway string // user nkey of the gateway
	Issuer  string // account nkey that signs who may connect
}

// Keys returns the keys for a server elsewhere; they are made at the first time.
func (b *Bus) Keys() (Keys, error) {
	own, issuer, err := b.keys()
	if err != nil {
		return Keys{}, err
	}
	user, err := own.PublicKey()
	if err != nil {
		return Keys{}, err
	}
	account, err := issuer.PublicKey()
	return Keys{user, account}, err
}

func (b *Bus) keys() (own, issuer nkeys.KeyPair, err error) {
	if own, err = loadPair(filepath.Join(b.opts.Dir, "bus.nk"), nkeys.PrefixByteUser); err != nil {
		return nil, nil, err
	}
	issuer, err = loadPair(filepath.Join(b.opts.Dir, "bus-issuer.nk"), nkeys.PrefixByteAccount)
	return own, issuer, err
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
func (b *Bus) elsewhere(options []nats.Option) ([]nats.Option, error) {
	own, issuer, err := b.keys()
	if err != nil {
		return nil, err
	}
	b.own, b.issuer = own, issuer
	if b.id, err = own.PublicKey(); err != nil {
		return nil, err
	}
	options = append(options, nats.Timeout(5*time.Second))
	if b.opts.TLS != nil {
		options = append(options, nats.Secure(b.opts.TLS))
	}
	return options, nil
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
		if !p.of.seen.IsZero() {
			p.of.drop() // it was here before: what it answered in between went nowhere
		}
		b.mu.Unlock()
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
