package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/handrail-dev/handrail/capabilities"
)

// pgConnector makes connections that read the rooms' dialect.
type pgConnector struct {
	driver.Connector
	dialect *dialect
}

func (c pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, away(err)
	}
	conn, ok := inner.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("store: the driver made a %T", inner), inner.Close())
	}
	return &pgConn{Conn: conn, dialect: c.dialect}, nil
}

// pgConn is a connection whose texts are turned by their values' types.
type pgConn struct {
	*stdlib.Conn
	dialect *dialect
}

// CheckNamedValue makes a value one of those that the dialect knows, as for every driver.
func (c *pgConn) CheckNamedValue(v *driver.NamedValue) (err error) {
	if v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value); err != nil {
		return err
	}
	if truth, ok := v.Value.(bool); ok { // as SQLite keeps it
		v.Value = int64(0)
		if truth {
			v.Value = int64(1)
		}
	}
	return nil
}

func (c *pgConn) turned(query string, values []driver.NamedValue) string {
	args := make([]any, len(values))
	for i := range values {
		args[i] = values[i].Value
	}
	return c.dialect.query(query, args)
}

func (c *pgConn) ExecContext(ctx context.Context, query string, values []driver.NamedValue) (driver.Result, error) {
	res, err := c.Conn.ExecContext(ctx, c.turned(query, values), values)
	return res, away(err)
}

func (c *pgConn) QueryContext(ctx context.Context, query string, values []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.QueryContext(ctx, c.turned(query, values), values)
	return rows, away(err)
}

// PrepareContext keeps the text: pgx prepares what a connection runs, by its turned text.
func (c *pgConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return &pgStmt{c, query}, nil
}

type pgStmt struct {
	conn *pgConn
	text string
}

func (s *pgStmt) Close() error  { return nil }
func (s *pgStmt) NumInput() int { return -1 }

func (s *pgStmt) CheckNamedValue(v *driver.NamedValue) error { return s.conn.CheckNamedValue(v) }

func (s *pgStmt) ExecContext(ctx context.Context, values []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.text, values)
}

func (s *pgStmt) QueryContext(ctx context.Context, values []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.text, values)
}

var errUnnamed = errors.New("store: a statement runs with a context")

func (s *pgStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errUnnamed }
func (s *pgStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, errUnnamed }

// own returns pgx's own connection.
func (c *pgConn) own() *pgx.Conn { return c.Conn.Conn() }

// away words what says that the database cannot be reached, or ended the connection.
func away(err error) error {
	if err == nil || !isAway(err) {
		return err
	}
	return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "The store's database is away.").
		WithHint("It goes on by itself once the database answers again. The admin should look at the PostgreSQL server.")
}
