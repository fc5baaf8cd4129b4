package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
)

// table is one of the rooms' tables, as it can be copied.
type table struct {
	name    string
	columns []column
	parents []string // tables that it refers to
	numbers string   // the column that numbers rows by itself on PostgreSQL
}

type column struct {
	name string
	kind byte // as of typeOf
}

func (t *table) list() string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = `"` + c.name + `"`
	}
	return strings.Join(names, ", ")
}

func (t *table) selects() string { return "SELECT " + t.list() + ` FROM "` + t.name + `"` } //nolint:gosec // names of our own tables

func (t *table) inserts() string {
	marks := make([]string, len(t.columns))
	for i := range marks {
		marks[i] = fmt.Sprintf("$%d", i+1)
	}
	return `INSERT INTO "` + t.name + `" (` + t.list() + ") VALUES (" + strings.Join(marks, ", ") + ")"
}

// asker runs queries: a connection or a transaction.
type asker interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// The queries return a table, a column, its type, and whether PostgreSQL numbers it; then a table
// and one that it refers to. Columns that a database makes of others are left out.
const (
	columnsOfLite = `SELECT t.name, c.name, c.type, 0 FROM pragma_table_list t JOIN pragma_table_info(t.name) c
		WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY t.name, c.name`
	parentsOfLite = `SELECT t.name, f."table" FROM pragma_table_list t JOIN pragma_foreign_key_list(t.name) f
		WHERE t.schema = 'main' AND t.type = 'table'`
	columnsOfPostgres = `SELECT c.table_name, c.column_name, c.data_type, CASE WHEN c.is_identity = 'YES' THEN 1 ELSE 0 END
		FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER'
		ORDER BY c.table_name COLLATE "C", c.column_name COLLATE "C"`
	parentsOfPostgres = `SELECT a.relname, b.relname FROM pg_constraint f JOIN pg_class a ON a.oid = f.conrelid
		JOIN pg_class b ON b.oid = f.confrelid WHERE f.contype = 'f' AND f.connamespace = current_schema()::regnamespace`
)

var kinds = map[string]byte{
	"INTEGER": 'i', "BIGINT": 'i', "TEXT": 't', "BLOB": 'b', "BYTEA": 'b', "REAL": 'f', "DOUBLE PRECISION": 'f',
}

// layout reads the rooms' tables, those that others refer to before the others.
func layout(ctx context.Context, db asker, onPostgres bool) ([]table, error) {
	columns, parents := columnsOfLite, parentsOfLite
	if onPostgres {
		columns, parents = columnsOfPostgres, parentsOfPostgres
	}
	rows, err := db.QueryContext(ctx, columns)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []table
	for rows.Next() {
		var name, kind string
		var c column
		var numbered bool
		if err := rows.Scan(&name, &c.name, &kind, &numbered); err != nil {
			return nil, err
		}
		if name == "schema_migration" || strings.HasPrefix(name, "store_") {
			continue
		}
		if c.kind = kinds[strings.ToUpper(kind)]; c.kind == 0 {
			return nil, fmt.Errorf("store: column %s of %s is a %s", c.name, name, kind)
		}
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, table{name: name})
		}
		t := &all[len(all)-1]
		t.columns = append(t.columns, c)
		if numbered {
			t.numbers = c.name
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	refer, err := db.QueryContext(ctx, parents)
	if err != nil {
		return nil, err
	}
	defer refer.Close()
	for refer.Next() {
		var child, parent string
		if err := refer.Scan(&child, &parent); err != nil {
			return nil, err
		}
		for i := range all {
			if all[i].name == child && child != parent {
				all[i].parents = append(all[i].parents, parent)
			}
		}
	}
	return parentsFirst(all), refer.Err()
}

func parentsFirst(all []table) []table {
	var sorted []table
	placed := map[string]bool{}
	for len(sorted) < len(all) {
		before := len(sorted)
		for _, t := range all {
			if !placed[t.name] && !slices.ContainsFunc(t.parents, func(p string) bool { return !placed[p] }) {
				placed[t.name] = true
				sorted = append(sorted, t)
			}
		}
		if len(sorted) == before { // a ring: the database will say so
			return all
		}
	}
	return sorted
}

// alike returns an error if two databases do not have the same tables.
func alike(from, to []table) error {
	of := map[string][]column{}
	for _, t := range from {
		of[t.name] = t.columns
	}
	for _, t := range to {
		if have, ok := of[t.name]; !ok || !slices.Equal(have, t.columns) {
			return capabilities.Errorf(capabilities.CodeVersionSkew, "The two stores do not have the same table %s.", t.name).
				WithHint("Start the gateway once with this program, so that its store is brought up to date, and end it again.")
		}
		delete(of, t.name)
	}
	for name := range of {
		return capabilities.Errorf(capabilities.CodeVersionSkew, "The table %s is in one of the two stores only.", name).
			WithHint("Use the program that wrote the store.")
	}
	return nil
}

// value makes what a database returned one of the column's kind.
func (c column) value(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case int64:
		switch c.kind {
		case 'i':
			return v, nil
		case 'f':
			return float64(v), nil
		}
	case float64:
		switch {
		case c.kind == 'f':
			return v, nil
		case c.kind == 'i' && v == math.Trunc(v) && math.Abs(v) < 1<<53:
			return int64(v), nil
		}
	case string:
		switch c.kind {
		case 't':
			if !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
				return nil, fmt.Errorf("a text is not UTF-8 without a zero byte")
			}
			return v, nil
		case 'b':
			return []byte(v), nil
		}
	case []byte:
		switch c.kind {
		case 'b':
			return append([]byte{}, v...), nil
		case 't':
			return c.value(string(v))
		}
	}
	return nil, fmt.Errorf("a %T does not belong there", v)
}

// sum is a digest of rows, whatever their order.
type sum struct {
	rows int64
	all  [4]uint64
	buf  []byte
}

func (s *sum) add(values []any) {
	b := s.buf[:0]
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b = append(b, '0')
		case int64:
			b = binary.BigEndian.AppendUint64(append(b, 'i'), uint64(v)) //nolint:gosec // its bits
		case float64:
			b = binary.BigEndian.AppendUint64(append(b, 'f'), math.Float64bits(v))
		case string:
			b = append(binary.BigEndian.AppendUint64(append(b, 't'), uint64(len(v))), v...)
		case []byte:
			b = append(binary.BigEndian.AppendUint64(append(b, 'b'), uint64(len(v))), v...)
		}
	}
	h := sha256.Sum256(b)
	for i := range s.all {
		s.all[i] += binary.BigEndian.Uint64(h[8*i:])
	}
	s.rows, s.buf = s.rows+1, b
}

func (s *sum) same(other *sum) bool { return s.rows == other.rows && s.all == other.all }

// read hands each row of a table to f.
func (t *table) read(ctx context.Context, db asker, f func([]any) error) error {
	rows, err := db.QueryContext(ctx, t.selects())
	if err != nil {
		return err
	}
	defer rows.Close()
	raw, at := make([]any, len(t.columns)), make([]any, len(t.columns))
	for i := range raw {
		at[i] = &raw[i]
	}
	for rows.Next() {
		if err := rows.Scan(at...); err != nil {
			return err
		}
		values := make([]any, len(raw))
		for i, c := range t.columns {
			if values[i], err = c.value(raw[i]); err != nil {
				return fmt.Errorf("store: %s of %s: %w", c.name, t.name, err)
			}
		}
		if err := f(values); err != nil {
			return err
		}
	}
	return rows.Err()
}
