package outcome

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// period is how long one secret serves. Every call's key is derived from its
// period's secret, so that keeping a key per call costs no write per call, and
// one key can be shown to somebody without showing the others.
const period = time.Hour

// secret is what a period's keys are derived from.
type secret struct {
	bytes   [32]byte
	expires int64 // ms since 1970
}

// DigestKey is the key under which one call's arguments and results are
// digested. The zero value is no key. It never prints.
type DigestKey struct{ key [32]byte }

// MAC is the digest of data: HMAC-SHA-256.
func (k DigestKey) MAC(data []byte) [32]byte {
	h := hmac.New(sha256.New, k.key[:])
	h.Write(data)
	return [32]byte(h.Sum(nil))
}

// String hides the key.
func (DigestKey) String() string { return "[digest key]" }

// GoString hides the key.
func (DigestKey) GoString() string { return "[digest key]" }

// DigestKey returns the key of a call that began at the given moment, which the
// caller keeps (to the millisecond) to ask again. CodeResultExpired once the key
// is gone for good.
func (s *Store) DigestKey(ctx context.Context, call capabilities.CallID, began time.Time) (DigestKey, error) {
	sec, err := s.secretOf(ctx, began)
	if err != nil {
		return DigestKey{}, err
	}
	h := hmac.New(sha256.New, sec.bytes[:])
	h.Write([]byte("handrail/digest-key/1|"))
	h.Write([]byte(call))
	return DigestKey{key: [32]byte(h.Sum(nil))}, nil
}

func bindingOfPeriod(n int64) []byte { return fmt.Appendf(nil, "digest-key/1|%d", n) }

func (s *Store) secretOf(ctx context.Context, at time.Time) (secret, error) {
	n := at.UnixMilli() / period.Milliseconds()
	now := s.opts.Now()
	s.mu.RLock()
	sec, ok := s.secrets[n]
	s.mu.RUnlock()
	if ok {
		if sec.expires <= now.UnixMilli() {
			return secret{}, &capabilities.Error{Code: capabilities.CodeResultExpired}
		}
		return sec, nil
	}
	sec, err := s.loadSecret(ctx, n, now)
	if errors.Is(err, sql.ErrNoRows) {
		if distance := at.Sub(now).Abs(); distance > 2*period {
			// Of long ago: a new secret would not make the old digests.
			return secret{}, &capabilities.Error{Code: capabilities.CodeResultExpired}
		}
		sec, err = s.makeSecret(ctx, n)
	}
	if err != nil {
		return secret{}, err
	}
	s.mu.Lock()
	s.secrets[n] = sec
	s.mu.Unlock()
	return sec, nil
}

type scanner interface{ Scan(dest ...any) error }

func (s *Store) readSecret(row scanner, n int64) (secret, error) {
	var sec secret
	var sealed []byte
	if err := row.Scan(&sec.expires, &sealed); err != nil {
		return secret{}, err
	}
	plain, err := s.unseal(sealed, bindingOfPeriod(n))
	if err != nil || len(plain) != len(sec.bytes) {
		return secret{}, capabilities.Wrap(capabilities.CodeResultExpired, err, "The digest keys cannot be unsealed with this key.")
	}
	copy(sec.bytes[:], plain)
	return sec, nil
}

const selectSecret = "SELECT expires_ms, sealed FROM outcome_digest_key WHERE period = $1"

func (s *Store) loadSecret(ctx context.Context, n int64, now time.Time) (secret, error) {
	sec, err := s.readSecret(s.opts.Store.Read().QueryRowContext(ctx, selectSecret, n), n)
	if err == nil && sec.expires <= now.UnixMilli() {
		return secret{}, &capabilities.Error{Code: capabilities.CodeResultExpired}
	}
	return sec, err
}

// makeSecret makes the period's secret durable before anything is digested under
// it. Of several callers the first one's stays.
func (s *Store) makeSecret(ctx context.Context, n int64) (secret, error) {
	mine := secret{expires: (n+1)*period.Milliseconds() + s.opts.DigestTTL.Milliseconds()}
	rand.Read(mine.bytes[:]) // never fails
	sealed := s.seal(mine.bytes[:], bindingOfPeriod(n))
	var stays secret
	err := s.opts.Store.Write(ctx, func(tx *store.Tx) (err error) {
		stays, err = s.readSecret(tx.QueryRow(selectSecret, n), n)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		stays = mine
		_, err = tx.Exec("INSERT INTO outcome_digest_key (period, expires_ms, sealed) VALUES ($1, $2, $3)", n, mine.expires, sealed)
		return err
	})
	return stays, err
}

// forget drops secrets that expired or that nobody will ask for from memory.
func (s *Store) forget(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, sec := range s.secrets {
		if sec.expires <= now || len(s.secrets) > 64 {
			delete(s.secrets, n)
		}
	}
}
