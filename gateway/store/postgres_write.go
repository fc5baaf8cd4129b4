package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	errAway     = errors.New("store: the database is away")
	errReplaced = errors.New("store: another gateway has taken this store over")
	errHeld     = errors.New("store: another gateway holds it")
	errLapsed   = errors.New("store: no word from the database for as long as the lease is")
	errUndone   = errors.New("store: a statement failed, so the transaction cannot be kept")
)

// unsure is a commit without an answer: the database knows whether it was kept.
type unsure struct {
	cause error
	group int64 // its number, if it was
}

func (u *unsure) Error() string { return "store: the commit's answer was lost: " + u.cause.Error() }
func (u *unsure) Unwrap() error { return u.cause }

// limited bounds the writer's own statements, also where the server is silent.
func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), statementLimit+connectLimit)
}

func (s *postgres) admit(group []*job) []*job { return group }

// begin raises the number of groups under this writer's epoch: a group of a writer that was
// replaced ends here, and whether one was kept can be asked later.
func (s *postgres) begin() error {
	if s.own == nil || s.own.IsClosed() {
		return errAway
	}
	if s.fleet != nil {
		return s.beginShared()
	}
	ctx, cancel := limited()
	defer cancel()
	s.lease.asks()
	tag, err := s.own.Exec(ctx, fmt.Sprintf("BEGIN; UPDATE store_writer SET grouped = %d WHERE one = 1 AND epoch = %d AND moved = ''",
		s.grouped+1, s.epoch))
	if err == nil && tag.RowsAffected() != 1 {
		err = errReplaced
	}
	if err != nil && !s.own.IsClosed() {
		_, _ = s.own.Exec(ctx, "ROLLBACK")
	}
	return err
}

func (s *postgres) ran(j *job) {
	switch {
	case s.own.IsClosed():
		if s.tx.fault == nil {
			s.tx.fault = errAway
		}
	case s.own.PgConn().TxStatus() == 'E' && j.err == nil && j.panicked == nil:
		j.err = errUndone // PostgreSQL keeps nothing of a transaction in which a statement failed
	}
}

func (s *postgres) finish() error {
	ctx, cancel := limited()
	defer cancel()
	text := "COMMIT"
	if s.fleet != nil {
		text = s.fleet.told() + text
	}
	tag, err := s.own.Exec(ctx, text)
	switch {
	case err == nil && tag.String() == "COMMIT":
		s.grouped++
		if s.fleet != nil {
			s.fleet.feed.Store(s.fleet.number)
		}
		s.lease.renew()
		return nil
	case err == nil:
		return errUndone // its answer is ROLLBACK
	case s.own.IsClosed():
		return &unsure{err, s.grouped + 1}
	}
	return err
}

// settle waits for a database that is away. Ordinary jobs are answered at once, those of the
// queue as well: nothing new is carried out. A commit without an answer is waited for, and so is
// what has to be recorded in any case.
func (s *postgres) settle(group []*job, err error) ([]*job, error) {
	for first := true; err != nil && isAway(err); first = false {
		var lost *unsure
		known := !errors.As(err, &lost)
		back := s.again()
		if back == nil {
			if !known && s.grouped == lost.group {
				err = nil
				break
			}
			err = s.commit(group)
			continue
		}
		if errors.Is(back, errReplaced) {
			return group, errReplaced
		}
		if first && !s.refused.Swap(true) {
			s.log.Error("store.database.away", "err", err, "cause", back)
		}
		if known {
			if group = s.putOff(group, err); len(group) == 0 {
				return nil, err
			}
		}
		if s.ends() || s.poison.Load() != nil {
			return group, err
		}
		s.refuseQueued(err)
		time.Sleep(retryAway)
	}
	if err == nil {
		s.refused.Store(false)
	}
	return group, err
}

// putOff answers the ordinary jobs and returns the others.
func (s *postgres) putOff(group []*job, err error) []*job {
	rest := group[:0:0]
	for _, j := range group {
		if j.terminal {
			rest = append(rest, j)
		} else {
			j.err = away(err)
		}
	}
	return rest
}

// refuseQueued answers the ordinary jobs that came meanwhile.
func (s *postgres) refuseQueued(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.queue[:0]
	for _, j := range s.queue {
		if j.terminal || j.wake == nil {
			rest = append(rest, j)
			continue
		}
		j.err, j.state = away(err), jobDone
		j.wake <- struct{}{}
	}
	clear(s.queue[len(rest):])
	s.queue = rest
}

func (s *postgres) ends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *postgres) faulty(err error) bool {
	if isAway(err) {
		return true
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) || len(e.Code) != 5 {
		return false
	}
	switch e.Code[:2] {
	case "53", "58", "XX": // no disk or memory, trouble of the system, damage
		return true
	}
	return false
}

func (s *postgres) ruined(err error) string {
	if errors.Is(err, errReplaced) {
		return "Another gateway has taken this store over; this one has to end."
	}
	if errors.Is(err, errLapsed) {
		return "This gateway had no word from its store for too long, so another may serve; this one has to stop."
	}
	return ""
}

// isAway reports that the server cannot be reached or ended the connection, as opposed to one
// that answered.
func isAway(err error) bool {
	if err == nil {
		return false
	}
	var e *pgconn.PgError
	if errors.As(err, &e) {
		switch e.Code {
		case "57P01", "57P02", "57P03", "57P05", "25P03", "53300", "25006": // ended, starting, too many, read-only
			return true
		}
		return len(e.Code) == 5 && e.Code[:2] == "08"
	}
	var refused *pgconn.ConnectError
	var network net.Error
	var lost *unsure
	for _, known := range []error{errAway, driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, known) {
			return true
		}
	}
	return errors.As(err, &lost) || errors.As(err, &refused) || pgconn.SafeToRetry(err) ||
		errors.As(err, &network) && !errors.Is(err, context.Canceled)
}
