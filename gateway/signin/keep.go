package signin

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "signin", Version: 1, SQL: `
		CREATE TABLE sign_in (
			name   TEXT PRIMARY KEY,
			record TEXT NOT NULL,
			sealed BLOB NOT NULL
		) STRICT`}}
}

// Tables are those whose change by another gateway Again is for.
var Tables = []string{"sign_in"}

// Again has Run look anew when the next token is due. The sign-ins are read where they are needed.
func (b *Book) Again(context.Context) error {
	b.changed()
	return nil
}

// SignIn is one sign-in as the admin sees it; it holds no token.
type SignIn struct {
	Name     string   `json:"name"`
	Server   string   `json:"server"` // the address of the MCP server
	Net      []string `json:"net,omitempty"`
	Resource string   `json:"resource"` // what its tokens are for
	Issuer   string   `json:"issuer"`
	Client   string   `json:"client_id"`
	Token    string   `json:"token_endpoint"`
	Revoke   string   `json:"revocation_endpoint,omitempty"`
	// By signed in; Until is when the access token ends, zero if it does not say.
	By    capabilities.PrincipalID `json:"by"`
	At    time.Time                `json:"at"`
	Until time.Time                `json:"until"`
	// Ended says why it has to be done again; "" while it holds.
	Ended string `json:"ended,omitempty"`
}

// Secret is the name under which the access token lies among the stored secrets.
func (s *SignIn) Secret() string { return secretName(s.Name) }

func secretName(name string) string { return "sign-in/" + name }

// hidden is what only the gateway ever uses.
type hidden struct {
	Refresh string `json:"refresh,omitempty"`
	Access  string `json:"access,omitempty"` // to revoke it; where it is used, it is a stored secret
	Client  string `json:"client_secret,omitempty"`
}

// but leaves out what a token endpoint gave once more.
func (h hidden) but(t *tokens) hidden {
	if h.Refresh == t.refresh {
		h.Refresh = ""
	}
	if h.Access == t.access {
		h.Access = ""
	}
	return h
}

func (b *Book) seal(name string, h hidden) ([]byte, error) {
	plain, err := json.Marshal(h)
	if err != nil {
		return nil, capabilities.AsError(err)
	}
	defer clear(plain)
	nonce := make([]byte, chacha20poly1305.NonceSizeX, chacha20poly1305.NonceSizeX+len(plain)+chacha20poly1305.Overhead)
	rand.Read(nonce) // never fails (crypto/rand)
	return b.aead.Seal(nonce, nonce, plain, []byte(name)), nil
}

var errSealed = errors.New("signin: sealed bytes are of another record or key")

func (b *Book) unseal(name string, sealed []byte) (h hidden, err error) {
	if len(sealed) < chacha20poly1305.NonceSizeX {
		return h, errSealed
	}
	plain, err := b.aead.Open(nil, sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:], []byte(name))
	if err != nil {
		return h, errSealed
	}
	defer clear(plain)
	return h, json.Unmarshal(plain, &h)
}

// put makes a sign-in durable together with its access token: after a crash both are the old ones
// or both the new.
func (b *Book) put(ctx context.Context, by capabilities.PrincipalID, kind string, s *SignIn, t *tokens) error {
	sealed, err := b.seal(s.Name, hidden{t.refresh, t.access, t.client})
	if err != nil {
		return err
	}
	record, err := json.Marshal(s)
	if err != nil {
		return capabilities.AsError(err)
	}
	keep := func(*store.Tx) error { return nil }
	if t.access != "" {
		access := capabilities.NewSecret([]byte(t.access))
		defer access.Wipe()
		if keep, err = b.opts.Secrets.Put(by, s.Secret(), access); err != nil {
			return err
		}
	}
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if err := keep(tx); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO sign_in (name, record, sealed) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET record = excluded.record, sealed = excluded.sealed`, s.Name, string(record), sealed); err != nil {
			return err
		}
		if kind == "" {
			return nil
		}
		return b.opts.Record(tx, kind, by, packet.SignIn{
			Name: s.Name, Server: s.Server, Issuer: s.Issuer, Resource: s.Resource, Client: s.Client,
		})
	})
	if err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	return nil
}

// get reads a sign-in and what is sealed of it. CodeNotFound; errSealed with the sign-in if that
// cannot be opened.
func (b *Book) get(ctx context.Context, name string) (s SignIn, h hidden, err error) {
	var record string
	var sealed []byte
	if err := b.opts.Store.Read().QueryRowContext(ctx, `SELECT record, sealed FROM sign_in WHERE name = $1`, name).
		Scan(&record, &sealed); errors.Is(err, sql.ErrNoRows) {
		return s, h, capabilities.Errorf(capabilities.CodeNotFound, "nobody signed in as %.64q", name)
	} else if err != nil {
		return s, h, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	if err := json.Unmarshal([]byte(record), &s); err != nil {
		return s, h, err
	}
	h, err = b.unseal(name, sealed)
	return s, h, err
}

// List returns all sign-ins, by name.
func (b *Book) List(ctx context.Context) ([]SignIn, error) {
	rows, err := b.opts.Store.Read().QueryContext(ctx, `SELECT record FROM sign_in ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []SignIn{}
	for rows.Next() {
		var record string
		var s SignIn
		if err := rows.Scan(&record); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(record), &s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}
