package gateway

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/signin"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

const (
	secretKey     = "secret.key"          // what stored secrets are sealed with
	secretSources = "secret-sources.json" // where others are kept; a person writes it
)

// openSecrets opens the vault. Its key is a file of its own, so that a copy of the
// store alone is worthless.
func (g *Gateway) openSecrets(ctx context.Context) error {
	key, err := os.ReadFile(g.path(secretKey))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		key = make([]byte, secret.KeySize)
		rand.Read(key) // never fails (crypto/rand)
		if err := pairing.SaveFile(g.path(secretKey), key); err != nil {
			return err
		}
	case err != nil:
		return err
	case len(key) != secret.KeySize:
		return fmt.Errorf("%s does not hold %d bytes", g.path(secretKey), secret.KeySize)
	}
	defer clear(key)
	g.Secrets, err = secret.New(secret.Options{
		Store: g.Store, Key: key, Sources: g.path(secretSources), Record: g.recordBy, OnChange: g.Nodes.Touch, Log: g.log,
	})
	if err != nil {
		return err
	}
	mine, err := hkdf.Key(sha256.New, key, nil, "handrail sign-in 1", secret.KeySize)
	if err != nil {
		return err
	}
	defer clear(mine)
	if g.SignIns, err = signin.New(signin.Options{
		Store: g.Store, Secrets: g.Secrets, Key: mine, Record: g.recordBy, Renewed: g.renewed, Log: g.log,
	}); err != nil {
		return err
	}
	if g.clientKey, err = hkdf.Key(sha256.New, key, nil, "handrail oauth 1", sha256.Size); err != nil {
		return err
	}
	return g.Secrets.Load(ctx)
}

// secrets is the vault, and what nodes keep of what was delivered.
type secrets struct {
	*secret.Vault
	g *Gateway
}

// Done writes a person's word down, and has the nodes show again what a lane pasted into.
func (s secrets) Done(ctx context.Context, by capabilities.PrincipalID,
	lane capabilities.LaneID) (told int, left []capabilities.NodeID, err error) {
	if err := s.g.Store.Write(ctx, func(tx *store.Tx) error {
		return s.g.recordBy(tx, "secret.done", by, packet.SecretDone{Lane: lane})
	}); err != nil {
		return 0, nil, err
	}
	told, left = s.g.Nodes.SecretsDone(lane)
	return told, left, nil
}

// renewed has the hosts of providers get a token that was refreshed.
func (g *Gateway) renewed(ctx context.Context, secret string) { g.Providers.Renewed(ctx, secret) }

// loadSeal reads the key that outcomes are sealed with, or makes it.
func loadSeal(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	switch {
	case err == nil && len(data) == outcome.KeySize:
		return data, nil
	case err == nil:
		return nil, fmt.Errorf("%s does not hold %d bytes", path, outcome.KeySize)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	key := make([]byte, outcome.KeySize)
	rand.Read(key) // never fails (crypto/rand)
	return key, pairing.SaveFile(path, key)
}
