package outcome

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are this room's tables.
var Migrations = []store.Migration{{Room: "outcome", Version: 1, SQL: `
CREATE TABLE outcome (
	call_id    TEXT NOT NULL,
	kind       TEXT NOT NULL,
	expires_ms BIGINT NOT NULL,
	size       BIGINT NOT NULL,
	sealed     BLOB NOT NULL,
	PRIMARY KEY (call_id, kind)
);
CREATE INDEX outcome_expires ON outcome (expires_ms, size);
CREATE TABLE outcome_digest_key (
	period     BIGINT PRIMARY KEY,
	expires_ms BIGINT NOT NULL,
	sealed     BLOB NOT NULL
);
`}, {Room: "outcome", Version: 2, SQL: artifactTables},
	{Room: "outcome", Version: 3, SQL: `ALTER TABLE artifact ADD COLUMN extended INTEGER NOT NULL DEFAULT 0`}}

// KeySize is the size of the sealing key.
const KeySize = chacha20poly1305.KeySize

// Options of Open.
type Options struct {
	Store     *store.Store     // required; opened with Migrations
	Key       []byte           // required: KeySize bytes; lost, everything kept is lost
	Quota     int64            // bytes kept in all; default 256 MiB
	MaxItem   int              // bytes of one item; default 32 MiB
	DigestTTL time.Duration    // how long digests can be recomputed; default 8 days
	Log       *slog.Logger     // default: discards
	Now       func() time.Time // default time.Now
}

// Store keeps sealed, expiring bytes. All methods are safe for concurrent use.
type Store struct {
	opts Options
	aead cipher.AEAD

	// The writer's: touched only inside transactions.
	used  int64
	epoch uint64 // tx.Epoch that used belongs to

	mu      sync.RWMutex
	secrets map[int64]secret // by period
}

// Open makes a Store. It starts nothing; Run sweeps.
func Open(o Options) (*Store, error) {
	if o.Store == nil {
		return nil, errors.New("outcome: Store is required")
	}
	aead, err := chacha20poly1305.NewX(o.Key)
	if err != nil {
		return nil, fmt.Errorf("outcome: Key must have %d bytes", KeySize)
	}
	if o.Quota <= 0 {
		o.Quota = 256 << 20
	}
	if o.MaxItem <= 0 {
		o.MaxItem = 32 << 20
	}
	if o.DigestTTL <= 0 {
		o.DigestTTL = 8 * 24 * time.Hour
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Key = nil
	return &Store{opts: o, aead: aead, secrets: map[int64]secret{}}, nil
}

// seal returns nonce and ciphertext.
func (s *Store) seal(data, bind []byte) []byte {
	out := make([]byte, chacha20poly1305.NonceSizeX, chacha20poly1305.NonceSizeX+len(data)+chacha20poly1305.Overhead)
	rand.Read(out) // never fails
	return s.aead.Seal(out, out, data, bind)
}

func (s *Store) unseal(sealed, bind []byte) ([]byte, error) {
	if len(sealed) < chacha20poly1305.NonceSizeX {
		return nil, errors.New("outcome: sealed bytes are too short")
	}
	return s.aead.Open(nil, sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:], bind)
}

// binding is what sealed bytes cannot be moved away from.
func binding(call capabilities.CallID, kind string, expiresMS int64) []byte {
	b := fmt.Appendf(nil, "outcome/1|%d|%d|%s%s", len(call), len(kind), call, kind)
	return binary.BigEndian.AppendUint64(b, uint64(expiresMS))
}

// PutIn keeps data for ttl as part of tx; the call's earlier bytes of that kind
// are replaced. When the disk is full it keeps nothing, for the reserve belongs
// to packets: the bytes then are as good as expired. Larger than MaxItem or the
// quota is CodeResultTooLarge.
func (s *Store) PutIn(tx *store.Tx, call capabilities.CallID, kind string, data []byte, ttl time.Duration) error {
	if tx.Reserved() {
		return nil
	}
	size := int64(len(data) + chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead)
	if len(data) > s.opts.MaxItem || size > s.opts.Quota {
		return capabilities.Errorf(capabilities.CodeResultTooLarge, "%d bytes are more than can be kept", len(data))
	}
	used, err := s.usedIn(tx)
	if err != nil {
		return err
	}
	s.epoch = 0 // until all of this is done
	var old int64
	err = tx.QueryRow("SELECT size FROM outcome WHERE call_id = $1 AND kind = $2", string(call), kind).Scan(&old)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("outcome: %w", err)
	}
	if used += size - old; used > s.opts.Quota {
		freed, err := evict(tx, used-s.opts.Quota, call, kind)
		if err != nil {
			return err
		}
		used -= freed
	}
	expires := s.opts.Now().Add(ttl).UnixMilli()
	_, err = tx.Exec(`INSERT INTO outcome (call_id, kind, expires_ms, size, sealed) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (call_id, kind) DO UPDATE SET expires_ms = excluded.expires_ms, size = excluded.size, sealed = excluded.sealed`,
		string(call), kind, expires, size, s.seal(data, binding(call, kind, expires)))
	if err != nil {
		return fmt.Errorf("outcome: %w", err)
	}
	s.used, s.epoch = used, tx.Epoch()
	return nil
}

// usedIn is the number of bytes kept: remembered, unless something was rolled
// back since.
func (s *Store) usedIn(tx *store.Tx) (int64, error) {
	if s.epoch == tx.Epoch() {
		return s.used, nil
	}
	var used int64
	if err := tx.QueryRow("SELECT COALESCE(SUM(size), 0) FROM outcome").Scan(&used); err != nil {
		return 0, fmt.Errorf("outcome: %w", err)
	}
	return used, nil
}

// evict makes room by dropping what would expire first, but not the item that
// the room is for.
func evict(tx *store.Tx, need int64, call capabilities.CallID, kind string) (freed int64, err error) {
	type item struct {
		call, kind string
		size       int64
	}
	for freed < need {
		rows, err := tx.Query("SELECT call_id, kind, size FROM outcome WHERE NOT (call_id = $1 AND kind = $2) ORDER BY expires_ms LIMIT 64",
			string(call), kind)
		if err != nil {
			return 0, fmt.Errorf("outcome: %w", err)
		}
		var items []item
		for rows.Next() {
			var it item
			if err := rows.Scan(&it.call, &it.kind, &it.size); err != nil {
				rows.Close()
				return 0, fmt.Errorf("outcome: %w", err)
			}
			items = append(items, it)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return 0, fmt.Errorf("outcome: %w", err)
		}
		if len(items) == 0 {
			return freed, nil
		}
		for _, it := range items {
			if freed >= need {
				break
			}
			if _, err := tx.Exec("DELETE FROM outcome WHERE call_id = $1 AND kind = $2", it.call, it.kind); err != nil {
				return 0, fmt.Errorf("outcome: %w", err)
			}
			freed += it.size
		}
	}
	return freed, nil
}

// Get returns what is kept; CodeResultExpired if nothing is, or not any more.
func (s *Store) Get(ctx context.Context, call capabilities.CallID, kind string) ([]byte, error) {
	var expires int64
	var sealed []byte
	err := s.opts.Store.Read().QueryRowContext(ctx, "SELECT expires_ms, sealed FROM outcome WHERE call_id = $1 AND kind = $2", string(call),
		kind).Scan(&expires, &sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && expires <= s.opts.Now().UnixMilli():
		return nil, &capabilities.Error{Code: capabilities.CodeResultExpired}
	case err != nil:
		return nil, fmt.Errorf("outcome: %w", err)
	}
	data, err := s.unseal(sealed, binding(call, kind, expires))
	if err != nil {
		// Another sealing key, or changed bytes: nothing that can be given out.
		s.opts.Log.Error("outcome.unsealable", "call", call, "kind", kind)
		return nil, capabilities.Wrap(capabilities.CodeResultExpired, err, "")
	}
	return data, nil
}

// Run sweeps what expired, each minute, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("outcome.sweep.failed", "err", err)
		}
		// The next period's secret before the first call needs it.
		if _, err := s.secretOf(ctx, s.opts.Now().Add(2*time.Minute)); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("outcome.digest_key.failed", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Sweep removes what expired.
func (s *Store) Sweep(ctx context.Context) error {
	now := s.opts.Now().UnixMilli()
	for {
		var more bool
		err := s.opts.Store.Write(ctx, func(tx *store.Tx) error {
			s.epoch = 0
			// A bounded bite each time: others want to write too.
			n, err := tx.Exec(
				"DELETE FROM outcome WHERE (call_id, kind) IN (SELECT call_id, kind FROM outcome WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT 256)",
				now)
			if err != nil {
				return fmt.Errorf("outcome: %w", err)
			}
			more = n == 256
			if _, err := tx.Exec("DELETE FROM outcome_digest_key WHERE expires_ms <= $1", now); err != nil {
				return fmt.Errorf("outcome: %w", err)
			}
			return nil
		})
		if err != nil || !more {
			s.forget(now)
			return err
		}
	}
}
