package store

import (
	"context"
	"database/sql"
)

// Tx is the transaction a function of Write runs in. It is valid only inside
// that function and only on its goroutine.
type Tx struct {
	s     *Store
	job   *job
	fault error // the machine's, not the statement's: the whole group is lost
}

// stmt returns the prepared form of query; each text is prepared once.
func (t *Tx) stmt(query string) (*sql.Stmt, error) {
	if t.job == nil {
		panic("store: Tx used outside its function")
	}
	if t.s.fleet != nil {
		if err := t.s.fleet.note(query); err != nil {
			t.job.barred = err
			return nil, err
		}
	}
	if stmt, ok := t.s.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := t.s.conn.PrepareContext(context.Background(), t.s.engine.text(query))
	if err != nil {
		return nil, t.note(err)
	}
	t.s.stmts[query] = stmt
	return stmt, nil
}

func (t *Tx) note(err error) error {
	if err != nil && t.fault == nil && t.s.engine.faulty(err) {
		t.fault = err
	}
	return err
}

// Exec runs a statement and returns the number of rows it changed. Keep query constant: each text
// stays prepared for the life of the store.
func (t *Tx) Exec(query string, args ...any) (int64, error) {
	stmt, err := t.stmt(query)
	if err != nil {
		return 0, err
	}
	res, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, t.note(err)
	}
	return res.RowsAffected()
}

// QueryRow runs a query of at most one row; Scan returns sql.ErrNoRows if there is none.
func (t *Tx) QueryRow(query string, args ...any) *sql.Row {
	stmt, err := t.stmt(query)
	if err != nil {
		// Run it unprepared, so that the row carries the same error.
		return t.s.conn.QueryRowContext(context.Background(), query, args...)
	}
	return stmt.QueryRowContext(context.Background(), args...)
}

// Query runs a query. Close the rows before the same text runs again.
func (t *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	stmt, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(context.Background(), args...)
	return rows, t.note(err)
}

// OnCommit has f called once after the commit is durable, before Write returns,
// in order. f runs while nobody else writes: it must be short and must not call
// Write.
func (t *Tx) OnCommit(f func()) { t.job.onCommit = append(t.job.onCommit, f) }

// Epoch changes whenever something is rolled back. A room that keeps in memory
// what it wrote (the head of a chain, a sum) remembers the epoch it belongs to,
// and reads it from the database again when the epoch is another.
func (t *Tx) Epoch() uint64 { return t.s.epoch }

// Reserved reports that the disk is full and that this transaction lives on the
// reserve: only what cannot be left out belongs in it.
func (t *Tx) Reserved() bool { return t.s.reserve.spent.Load() }

// exec runs one of the writer's own statements.
func (s *Store) exec(query string) error {
	stmt, ok := s.stmts[query]
	if !ok {
		var err error
		if stmt, err = s.conn.PrepareContext(context.Background(), query); err != nil {
			return err
		}
		s.stmts[query] = stmt
	}
	_, err := stmt.ExecContext(context.Background())
	return err
}
