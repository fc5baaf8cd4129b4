package store

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/handrail-dev/handrail/capabilities"
)

// lease is how long a writer may serve after the last group that its database kept, counted from
// before it asked. Others see the number of groups go on, and take the store once it stands still
// for longer: clocks of two machines are never compared.
type lease struct {
	length time.Duration // 0: none
	//lint:ignore containedctx it ends with the lease
	life context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	asked   time.Time // when the last group began
	renewed time.Time // when the last group that was kept began
	conn    net.Conn
}

func newLease(length time.Duration) *lease {
	l := &lease{length: length}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

func (l *lease) over(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
}

func (l *lease) asks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = time.Now()
}

func (l *lease) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = l.asked
}

func (l *lease) since() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.renewed)
}

func (l *lease) ended() bool { return l.length > 0 && l.since() >= l.length }

// cut ends what waits for a database that is silent.
func (l *lease) cut() {
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// renews writes a group of nothing where nobody else writes.
func (s *postgres) renews(ctx context.Context) {
	tick := time.NewTicker(s.lease.length / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.fault:
			return
		case <-tick.C:
		}
		if s.lease.since() >= s.lease.length/5 {
			_ = s.Write(ctx, func(*Tx) error { return nil })
		}
	}
}

// turn waits until this gateway is the schema's writer. With a lease that takes as long as it
// takes: another's ends with its connection, or when it does not renew it.
func (s *postgres) turn(ctx context.Context) error {
	if s.lease.length == 0 || s.fleet != nil {
		return s.lock(ctx, takeOverWait)
	}
	var seen [2]int64
	since, waits := time.Now(), false
	for {
		if err := s.lock(ctx, 0); err == nil || !errors.Is(err, errHeld) {
			return err
		}
		var now [2]int64
		var length int64
		err := s.own.QueryRow(ctx, "SELECT epoch, grouped, lease_ms FROM store_writer").Scan(&now[0], &now[1], &length)
		var unmade *pgconn.PgError
		switch {
		case errors.As(err, &unmade) && unmade.Code == "42P01": // the other has just begun
		case err != nil:
			return away(err)
		}
		if !waits {
			waits = true
			s.log.Info("store.standby", "epoch", now[0])
		}
		if now != seen {
			seen, since = now, time.Now()
		}
		if over := time.Duration(length) * time.Millisecond * 6 / 5; length > 0 && time.Since(since) > over {
			s.log.Warn("store.standby.takes", "epoch", now[0], "after_ms", time.Since(since).Milliseconds())
			if _, err := s.own.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = $1 AND objid = $2
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND granted AND pid <> pg_backend_pid()`,
				uint32(lockRoom), uint32(s.lockID())); err != nil { //nolint:gosec // 31 bits
				return away(err)
			}
			since = time.Now()
		}
		select {
		case <-ctx.Done():
			return capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
		case <-time.After(retryAway):
		}
	}
}

// Lapsed reports whether an error of Run or Open is that another gateway of the site has the
// store, or may have it.
func Lapsed(err error) bool {
	return errors.Is(err, errLapsed) || errors.Is(err, errReplaced) || errors.Is(err, errHeld) || isAway(err)
}
