package secret

import (
	"context"
	"crypto/cipher"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// KeySize is the size of the key that values are sealed with.
const KeySize = chacha20poly1305.KeySize

// Bounds of what is kept.
const (
	MinValue  = 4   // bytes; what is shorter cannot be kept out of texts
	maxName   = 120 // of a secret, an alias or a display name
	maxEach   = 20  // references of one principal: all of them are listed with the tool
	maxStored = 10_000
)

// Options of New; required unless a default is named.
type Options struct {
	Store *store.Store
	// Key seals the values, KeySize bytes.
	Key []byte
	// Sources is the file that names secrets kept elsewhere (see sources). Default:
	// none.
	Sources string
	// Record writes a packet in the same transaction as the change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	// OnChange is told that somebody may use another secret than before. Default:
	// nobody is told.
	OnChange func()
	Log      *slog.Logger // default: discards
	Now      func() time.Time
}

// Vault is the secrets of one gateway. All methods are safe for concurrent use.
type Vault struct {
	opts Options
	aead cipher.AEAD

	mu      sync.RWMutex
	byOwner map[capabilities.PrincipalID][]Reference // sorted by alias and ID
}

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "secret", Version: 1, SQL: `
		CREATE TABLE secret (
			name       TEXT PRIMARY KEY,
			version    INTEGER NOT NULL,
			sealed     BLOB NOT NULL,
			created_at INTEGER NOT NULL,
			changed_at INTEGER NOT NULL
		) STRICT;
		CREATE TABLE secret_reference (
			ref_id     TEXT PRIMARY KEY,
			principal  TEXT NOT NULL,
			name       TEXT NOT NULL,
			alias      TEXT,
			display    TEXT NOT NULL,
			tools      TEXT NOT NULL,
			created_at INTEGER NOT NULL
		) STRICT;
		CREATE UNIQUE INDEX secret_reference_alias ON secret_reference (principal, alias) WHERE alias IS NOT NULL`}}
}

// New makes a Vault; call Load before use.
func New(o Options) (*Vault, error) {
	if o.Store == nil {
		return nil, errors.New("secret: Options.Store is required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnChange == nil {
		o.OnChange = func() {}
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	aead, err := chacha20poly1305.NewX(o.Key)
	if err != nil {
		return nil, fmt.Errorf("secret: the key: %w", err)
	}
	return &Vault{opts: o, aead: aead, byOwner: map[capabilities.PrincipalID][]Reference{}}, nil
}

// checkValue refuses what a clipboard cannot carry or what cannot be kept out of
// texts. The error never holds the value.
func checkValue(s capabilities.Secret) error {
	value := s.Reveal()
	blank := true
	for _, r := range string(value) {
		blank = blank && (r == ' ' || r == '\t' || r == '\n' || r == '\r')
	}
	switch {
	case len(value) < MinValue || len(value) > capabilities.MaxSecret:
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "a secret has %d to %d bytes", MinValue, capabilities.MaxSecret)
	case blank:
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "a secret must not be blank")
	case !utf8.Valid(value):
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "a secret must be text (UTF-8)")
	}
	for _, b := range value {
		if b == 0 {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "a secret must not hold a NUL")
		}
	}
	return nil
}

// binding is what sealed bytes cannot be moved away from.
func binding(name string, version int64) []byte {
	return fmt.Appendf(nil, "secret/1|%s|%d", name, version)
}

// Set keeps a value under a name, in place of the one that was there. References to
// the name then mean the new value. It takes value over.
func (v *Vault) Set(ctx context.Context, by capabilities.PrincipalID, name string, value capabilities.Secret) error {
	defer value.Wipe()
	put, err := v.Put(by, name, value)
	if err != nil {
		return err
	}
	return v.opts.Store.Write(ctx, put)
}

// Put returns what keeps a value under a name, as Set does, in a transaction of the caller's. value
// stays the caller's, who wipes it after that transaction.
func (v *Vault) Put(by capabilities.PrincipalID, name string, value capabilities.Secret) (func(tx *store.Tx) error, error) {
	if err := capabilities.ValidateName("name", name, maxName); err != nil {
		return nil, err
	}
	if err := checkValue(value); err != nil {
		return nil, err
	}
	if kept, err := v.sources(); err != nil {
		return nil, err
	} else if _, elsewhere := kept[name]; elsewhere {
		return nil, capabilities.Errorf(capabilities.CodeConflict, "the sources file says where %q is kept", name).
			WithHint("Change it there, or take it out of the file first.")
	}
	return func(tx *store.Tx) error {
		version, count, now := int64(1), 0, v.opts.Now().UnixMilli()
		err := tx.QueryRow(`SELECT version + 1 FROM secret WHERE name = $1`, name).Scan(&version)
		if errors.Is(err, sql.ErrNoRows) {
			if err := tx.QueryRow(`SELECT COUNT(*) FROM secret`).Scan(&count); err != nil {
				return err
			}
			if count >= maxStored {
				return capabilities.Errorf(capabilities.CodeOverloaded, "there are %d secrets already", maxStored)
			}
		} else if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO secret (name, version, sealed, created_at, changed_at) VALUES ($1, $2, $3, $4, $4)
			ON CONFLICT (name) DO UPDATE SET version = excluded.version, sealed = excluded.sealed, changed_at = excluded.changed_at`,
			name, version, v.seal(value, binding(name, version)), now); err != nil {
			return err
		}
		return v.opts.Record(tx, "secret.set", by, packet.SecretSet{Name: name, Version: version})
	}, nil
}

// Entry is a secret as the admin sees it.
type Entry struct {
	Name       string
	Source     string // stored, env, file or exec
	Version    int64
	Changed    time.Time
	References []Reference
}

// List returns every secret with who may use it, sorted by name; never a value.
func (v *Vault) List(ctx context.Context) ([]Entry, error) {
	kept, err := v.sources()
	if err != nil {
		return nil, err
	}
	byName := map[string]*Entry{}
	for name, s := range kept {
		byName[name] = &Entry{Name: name, Source: s.kind()}
	}
	rows, err := v.opts.Store.Read().QueryContext(ctx, `SELECT name, version, changed_at FROM secret`)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	for rows.Next() {
		e, ms := Entry{Source: "stored"}, int64(0)
		if err := rows.Scan(&e.Name, &e.Version, &ms); err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		e.Changed = time.UnixMilli(ms).UTC()
		if byName[e.Name] == nil { // the sources file wins, as it does in Resolve
			byName[e.Name] = &e
		}
	}
	if err := rows.Err(); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return v.withReferences(byName), nil
}

// Known refuses a name under which no secret is kept: CodeNotFound.
func (v *Vault) Known(ctx context.Context, name string) error {
	kept, err := v.sources()
	if err != nil {
		return err
	}
	var have int
	if err := v.opts.Store.Read().QueryRowContext(ctx, `SELECT COUNT(*) FROM secret WHERE name = $1`, name).Scan(&have); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	if _, elsewhere := kept[name]; have == 0 && !elsewhere {
		return capabilities.Errorf(capabilities.CodeNotFound, "there is no secret %.128q", name).
			WithAction(capabilities.Action{Key: capabilities.ActionSetSecret, Name: name}, "Set it first.")
	}
	return nil
}

// Remove removes a secret with every reference to it, or one reference by its ID.
// CodeNotFound if there is neither.
func (v *Vault) Remove(ctx context.Context, by capabilities.PrincipalID, what string) error {
	err := v.opts.Store.Write(ctx, func(tx *store.Tx) error {
		gone, err := tx.Exec(`DELETE FROM secret WHERE name = $1`, what)
		if err != nil {
			return err
		}
		refs, err := tx.Exec(`DELETE FROM secret_reference WHERE name = $1 OR ref_id = $1`, what)
		if err != nil {
			return err
		}
		if gone+refs == 0 {
			return capabilities.Errorf(capabilities.CodeNotFound, "there is no secret and no reference %.128q", what)
		}
		return v.opts.Record(tx, "secret.removed", by, packet.SecretRemoved{Removed: what, References: refs})
	})
	if err != nil {
		return err
	}
	return v.Load(ctx)
}

// Lapse removes the value of a secret and leaves its references, which have one again with the next
// value under the name: of a sign-in that ended, say. CodeNotFound if there is none.
func (v *Vault) Lapse(ctx context.Context, by capabilities.PrincipalID, name string) error {
	return v.opts.Store.Write(ctx, func(tx *store.Tx) error {
		gone, err := tx.Exec(`DELETE FROM secret WHERE name = $1`, name)
		if err == nil && gone == 0 {
			err = capabilities.Errorf(capabilities.CodeNotFound, "there is no secret %.128q", name)
		}
		if err != nil {
			return err
		}
		return v.opts.Record(tx, "secret.removed", by, packet.SecretRemoved{Removed: name})
	})
}

// RemoveAlias removes the references of that alias with a tool, of all owners; none is no error.
func (v *Vault) RemoveAlias(ctx context.Context, by capabilities.PrincipalID, alias string, tool capabilities.ToolID) error {
	v.mu.RLock()
	var ids []string
	for _, list := range v.byOwner {
		for _, r := range list {
			if r.Alias == alias && slices.Contains(r.Tools, tool) {
				ids = append(ids, r.ID)
			}
		}
	}
	v.mu.RUnlock()
	for _, id := range ids {
		if err := v.Remove(ctx, by, id); err != nil && capabilities.CodeOf(err) != capabilities.CodeNotFound {
			return err
		}
	}
	return nil
}

// Resolve returns the value behind a reference: values leave for devices here alone. Call it
// immediately before delivery (S0-41). CodeSecretUnavailable when what is kept, or the place it is
// kept in, has none.
func (v *Vault) Resolve(ctx context.Context, r Reference) (capabilities.Secret, error) {
	return v.value(ctx, r.ID, r.name)
}

// Own returns a value that the gateway itself shows to somebody, as the admin who started it
// named it. CodeSecretUnavailable as for Resolve.
func (v *Vault) Own(ctx context.Context, name string) (capabilities.Secret, error) {
	return v.value(ctx, "", name)
}

func (v *Vault) value(ctx context.Context, ref, name string) (capabilities.Secret, error) {
	value, err := v.read(ctx, name)
	if err == nil {
		err = checkValue(value)
	}
	if err != nil {
		value.Wipe()
		v.opts.Log.Warn("secret.unavailable", "ref", ref, "name", name, "err", err)
		return capabilities.Secret{}, capabilities.Wrap(capabilities.CodeSecretUnavailable, err, "")
	}
	return value, nil
}

func (v *Vault) read(ctx context.Context, name string) (capabilities.Secret, error) {
	kept, err := v.sources()
	if err != nil {
		return capabilities.Secret{}, err
	}
	if s, ok := kept[name]; ok {
		return s.read(ctx)
	}
	var version int64
	var bytes []byte
	err = v.opts.Store.Read().QueryRowContext(ctx, `SELECT version, sealed FROM secret WHERE name = $1`, name).Scan(&version, &bytes)
	if err != nil {
		return capabilities.Secret{}, err
	}
	return v.unseal(bytes, binding(name, version))
}

func (v *Vault) sources() (map[string]source, error) {
	if v.opts.Sources == "" {
		return nil, nil
	}
	data, err := os.ReadFile(v.opts.Sources)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "The file that says where secrets are kept cannot be read.")
	}
	return parseSources(data)
}
