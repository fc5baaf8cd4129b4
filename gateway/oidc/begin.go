package oidc

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/handrail-dev/handrail/capabilities"
)

// pending is a sign-in that waits for the person, as their browser keeps it, sealed.
type pending struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Back     string `json:"b"`
	Until    int64  `json:"u"` // Unix milliseconds
}

// Begun is a sign-in that waits for a person at their provider.
type Begun struct {
	Address string // where their browser goes
	Keep    string // what their browser keeps until it comes back: for a cookie
}

// Begin begins a sign-in. Back is the address of the gateway where the provider sends the browser.
func (p *Provider) Begin(ctx context.Context, back string) (Begun, error) {
	m, err := p.meet(ctx)
	if err != nil {
		return Begun{}, err
	}
	w := pending{
		State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), Back: back, Until: p.opts.Now().Add(Life).UnixMilli(),
	}
	keep, err := p.seal(&w)
	if err != nil {
		return Begun{}, err
	}
	return Begun{
		Address: p.config(m, back, "").AuthCodeURL(w.State, gooidc.Nonce(w.Nonce), oauth2.S256ChallengeOption(w.Verifier)), Keep: keep,
	}, nil
}

func (p *Provider) config(m *met, back, secret string) *oauth2.Config {
	return &oauth2.Config{ClientID: p.opts.Client, ClientSecret: secret, Endpoint: m.endpoint, RedirectURL: back, Scopes: p.opts.Scopes}
}

// random returns 32 bytes as text.
func random() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b)
}

func (p *Provider) seal(w *pending) (string, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return "", capabilities.AsError(err)
	}
	nonce := make([]byte, p.aead.NonceSize(), p.aead.NonceSize()+len(text)+p.aead.Overhead())
	rand.Read(nonce) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(p.aead.Seal(nonce, nonce, text, nil)), nil
}

// unseal returns what a browser kept, if this process gave it out and it is not late.
func (p *Provider) unseal(keep string) (w pending, ok bool) {
	data, err := base64.RawURLEncoding.DecodeString(keep)
	if err != nil || len(data) < p.aead.NonceSize() {
		return w, false
	}
	n := p.aead.NonceSize()
	text, err := p.aead.Open(nil, data[:n], data[n:], nil)
	if err != nil || json.Unmarshal(text, &w) != nil {
		return w, false
	}
	return w, p.opts.Now().Before(time.UnixMilli(w.Until))
}
