package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/handrail-dev/handrail/capabilities"
)

// Copied is what Copy brought over.
type Copied struct {
	Tables int   `json:"tables"`
	Rows   int64 `json:"rows"`
}

// Copy brings everything that from holds into to, in one commit: a store that was opened with the
// same migrations and Vacant. Each row is read again, and compared, before it is kept.
// Both are this process's alone, so nobody writes meanwhile. site is whose store to is then.
func Copy(ctx context.Context, from, to *Store, site string) (Copied, error) {
	tx, err := from.readDB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Copied{}, err
	}
	defer tx.Rollback() //nolint:errcheck // it read only
	return to.fill(ctx, tx, from.OnPostgres(), site)
}

// fill takes over what a transaction of another store sees.
func (s *Store) fill(ctx context.Context, tx *sql.Tx, onPostgres bool, site string) (done Copied, err error) {
	if onPostgres {
		if _, err := tx.ExecContext(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return done, err
		}
	}
	theirs, err := layout(ctx, tx, onPostgres)
	if err != nil {
		return done, err
	}
	ours, err := layout(ctx, s.conn, s.OnPostgres())
	if err != nil {
		return done, err
	}
	if err := alike(theirs, ours); err != nil {
		return done, err
	}
	of := map[string]*table{}
	for i := range theirs {
		of[theirs[i].name] = &theirs[i]
	}
	if err := s.engine.begin(); err != nil {
		return done, err
	}
	defer func() {
		if err != nil {
			_ = s.rollback(err)
			err = RoomFor(err)
		}
	}()
	if pg, ok := s.engine.(*postgres); ok {
		if _, err := pg.own.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return done, err
		}
	}
	for i := len(ours) - 1; i >= 0; i-- { // what the migrations begin with
		if _, err := s.conn.ExecContext(ctx, `DELETE FROM "`+ours[i].name+`"`); err != nil {
			return done, err
		}
	}
	for i := range ours {
		n, err := s.take(ctx, tx, of[ours[i].name], &ours[i])
		if err != nil {
			return done, fmt.Errorf("store: copying %s: %w", ours[i].name, err)
		}
		done.Tables, done.Rows = done.Tables+1, done.Rows+n
	}
	if s.OnPostgres() {
		if _, err := s.conn.ExecContext(ctx, "UPDATE store_writer SET site = $1", site); err != nil {
			return done, err
		}
	}
	return done, s.engine.finish()
}

// take copies one table and reads it again.
func (s *Store) take(ctx context.Context, tx *sql.Tx, from, to *table) (int64, error) {
	var read, kept sum
	var err error
	if pg, ok := s.engine.(*postgres); ok {
		err = pg.stream(ctx, tx, from, to, &read)
	} else {
		err = s.insert(ctx, tx, from, to, &read)
	}
	if err != nil {
		return 0, err
	}
	err = to.read(ctx, s.conn, func(values []any) error {
		kept.add(values)
		return nil
	})
	if err == nil && !kept.same(&read) {
		err = capabilities.Errorf(capabilities.CodeLedgerUnavailable, "%d rows of %s were written, and %d others came back.", read.rows, to.name,
			kept.rows).WithHint("Nothing was kept. Look at the disk and at the database.")
	}
	return read.rows, err
}

func (s *Store) insert(ctx context.Context, tx *sql.Tx, from, to *table, read *sum) error {
	stmt, err := s.conn.PrepareContext(ctx, s.engine.text(to.inserts()))
	if err != nil {
		return err
	}
	defer stmt.Close()
	return from.read(ctx, tx, func(values []any) error {
		read.add(values)
		_, err := stmt.ExecContext(ctx, values...)
		return err
	})
}

// stream is insert as PostgreSQL takes many rows at once.
func (s *postgres) stream(ctx context.Context, tx *sql.Tx, from, to *table, read *sum) error {
	names := make([]string, len(to.columns))
	for i, c := range to.columns {
		names[i] = c.name
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	rows := make(chan []any, 256)
	var failed error // read once rows is closed
	go func() {
		defer close(rows)
		failed = from.read(reading, tx, func(values []any) error {
			select {
			case rows <- values:
				return nil
			case <-reading.Done():
				return reading.Err()
			}
		})
	}()
	_, err := s.own.CopyFrom(ctx, pgx.Identifier{s.schema, to.name}, names, pgx.CopyFromFunc(func() ([]any, error) {
		values, ok := <-rows
		if !ok {
			return nil, failed
		}
		read.add(values)
		return values, nil
	}))
	cancel()
	for range rows { // until the reader ended
		continue
	}
	if err != nil || to.numbers == "" {
		return err
	}
	column := `"` + to.numbers + `"`
	_, err = s.own.Exec(ctx, `SELECT setval(pg_get_serial_sequence($1, $2), greatest(max(`+column+`), 1), max(`+column+`) IS NOT NULL) FROM "`+
		to.name+`"`, `"`+s.schema+`"."`+to.name+`"`, to.numbers)
	return err
}

// MovedFrom marks a store in PostgreSQL as one that its site left: no gateway opens it again.
func (s *Store) MovedFrom(ctx context.Context, at time.Time) error {
	if !s.OnPostgres() {
		return nil
	}
	return s.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec("UPDATE store_writer SET moved = $1", at.UTC().Format(time.RFC3339))
		return err
	})
}

// snapshotOf writes what a store in PostgreSQL holds at one moment to a new file. Its gateway works
// meanwhile.
func snapshotOf(ctx context.Context, u URL, to string, migrations []Migration) (schema map[string]int, err error) {
	at, err := parseURL(string(u))
	if err != nil {
		return nil, err
	}
	from := &postgres{address: at}
	db := sql.OpenDB(from.connector(map[string]string{
		"default_transaction_read_only": "on", "default_transaction_isolation": "repeatable read",
	}))
	defer db.Close()
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, away(err)
	}
	defer tx.Rollback() //nolint:errcheck // it read only
	if schema, err = schemaOf(ctx, tx); err != nil {
		return nil, err
	}
	if err := Newer(schema, migrations); err != nil {
		return nil, err
	}
	part := to + partEnd
	if err := dropPart(to); err != nil { // of one that was killed
		return nil, err
	}
	file, err := Open(ctx, Options{Path: part, Migrations: migrations, ReserveBytes: -1})
	if err != nil {
		return nil, errors.Join(RoomFor(err), dropPart(to))
	}
	_, err = file.fill(ctx, tx, true, "")
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(part, to)
	}
	return schema, errors.Join(err, dropPart(to))
}

// partEnd is what the name of a snapshot ends with while it is made of another database.
const partEnd = ".part"

func dropPart(to string) error {
	for _, end := range []string{"", "-wal", "-shm", ".lock"} {
		if err := os.Remove(to + partEnd + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// TakePlace makes a finished copy the file of a gateway's folder, whose store lay elsewhere.
func TakePlace(dir, file string) error {
	if err := os.Rename(file, filepath.Join(dir, FileName)); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, placeName)); err != nil {
		return err
	}
	return syncFolder(dir)
}

// LeavePlace has a gateway's folder say that its store lies at u from now on, and puts its file
// aside as it was. The file is closed already.
func LeavePlace(dir string, u URL) error {
	if err := Settle(dir, u.bare()); err != nil {
		return err
	}
	return retire(dir)
}
