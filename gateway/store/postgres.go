package store

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/handrail-dev/handrail/capabilities"
)

// postgres is a schema of a PostgreSQL database. One writer has it, by an advisory lock that its
// connection holds and by the epoch in store_writer, which each group names.
type postgres struct {
	*Store
	*address
	site     string
	existing bool // the schema has to be a store already
	vacant   bool // it may not be one
	lease    *lease
	dialect  dialect

	own     *pgx.Conn // the writer's connection
	pid     uint32    // its process of the server
	epoch   int64     // of this writer
	grouped int64     // groups that were kept
	tried   time.Time // last attempt to connect again
}

const (
	oldestServer = 130000 // PostgreSQL 13
	lockRoom     = 0x6872 // first half of the advisory lock; the second is of the schema's name
	lockTables   = 0x6873 // the same, over the tables while a member makes them

	statementLimit = 30 * time.Second
	connectLimit   = 5 * time.Second
	stillLimit     = 2 * time.Second // of a member within a group
	takeOverWait   = 5 * time.Second // for the lock of a writer that was ended just now
	retryAway      = 100 * time.Millisecond
	maxReaders     = 8
)

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// isURL reports whether a store's place names a PostgreSQL database, in the form of its own tools.
func isURL(place string) bool {
	return strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://")
}

// address is how a store's place is reached.
type address struct {
	*pgx.ConnConfig
	schema  string // that ?schema= names
	readers int    // connections for reading at once, as ?pool_max_conns= bounds them
}

// String returns nothing that is secret.
func (a *address) String() string { return a.Host + "/" + a.Database + " schema " + a.schema }

// parseURL reads a store's place.
func parseURL(place string) (*address, error) {
	bad := func(format string, args ...any) error {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, format, args...).
			WithHint("Name it as postgres://USER@HOST/DATABASE, with ?schema= and ?sslmode= where they differ from handrail and verify-full.")
	}
	u, err := url.Parse(place)
	if err != nil || !isURL(place) {
		return nil, bad("the store's address is not that of a PostgreSQL database")
	}
	q := u.Query()
	schema := q.Get("schema")
	if schema == "" {
		schema = "handrail"
	}
	if !schemaName.MatchString(schema) || strings.HasPrefix(schema, "pg_") {
		return nil, bad("%q is no name for the store's schema", schema)
	}
	q.Del("schema")
	readers := maxReaders
	if text := q.Get("pool_max_conns"); text != "" {
		if readers, err = strconv.Atoi(text); err != nil || readers < 1 || readers > 1000 {
			return nil, bad("pool_max_conns=%.20s is no number of connections", text)
		}
	}
	q.Del("pool_max_conns")
	mode := q.Get("sslmode")
	if mode == "" {
		q.Set("sslmode", "verify-full")
	}
	if mode == "prefer" || mode == "allow" {
		return nil, bad("sslmode=%s goes on in the clear when TLS fails", mode)
	}
	host := u.Hostname()
	if q.Has("host") {
		host = q.Get("host")
	}
	if ip := net.ParseIP(host); mode == "" && (strings.HasPrefix(host, "/") || host == "localhost" || ip != nil && ip.IsLoopback()) {
		q.Set("sslmode", "disable") // nothing leaves this machine
	}
	u.RawQuery = q.Encode()
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, bad("the store's address cannot be read") // pgx's words hold the password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectLimit
	}
	config.DialFunc = (&net.Dialer{
		Timeout: config.ConnectTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: connectLimit, Interval: connectLimit, Count: 3},
	}).DialContext
	for name, value := range map[string]string{
		"search_path": `"` + schema + `"`, "application_name": "handrail", "client_encoding": "UTF8", "TimeZone": "UTC",
		"statement_timeout":                   strconv.FormatInt(statementLimit.Milliseconds(), 10),
		"idle_in_transaction_session_timeout": strconv.FormatInt((2 * statementLimit).Milliseconds(), 10),
	} {
		if _, given := config.RuntimeParams[name]; !given || name == "search_path" {
			config.RuntimeParams[name] = value
		}
	}
	return &address{config, schema, readers}, nil
}

func (s *postgres) connector(more map[string]string) pgConnector {
	config := s.ConnConfig.Copy()
	config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary // a standby is behind, or keeps nothing
	for name, value := range more {
		config.RuntimeParams[name] = value
	}
	return pgConnector{stdlib.GetConnector(*config), &s.dialect}
}

func (s *postgres) connect(ctx context.Context) error {
	if err := s.dial(ctx); err != nil {
		return err
	}
	if err := s.suits(ctx); err != nil {
		return err
	}
	if err := s.turn(ctx); err != nil {
		return err
	}
	if s.fleet != nil { // tables are made by one member at a time; ready lets the next
		if _, err := s.own.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", int32(lockTables), s.lockID()); err != nil {
			return away(err)
		}
	}
	if err := s.lay(ctx); err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "The store's schema cannot be set up.").
			WithHint("The database's user must be allowed to create it, or own it.")
	}
	return s.take(ctx)
}

// dial opens the writer's connection.
func (s *postgres) dial(ctx context.Context) error {
	var more map[string]string
	if s.fleet != nil { // a member that stands still holds up the others no longer
		more = map[string]string{"idle_in_transaction_session_timeout": strconv.FormatInt(stillLimit.Milliseconds(), 10)}
	}
	s.db = sql.OpenDB(s.connector(more))
	s.db.SetMaxOpenConns(1)
	conn, err := s.db.Conn(ctx)
	if err != nil {
		if isAway(err) {
			return away(err)
		}
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "The store's database refused the connection.").
			WithHint("Look at the address, the user and the password of the PostgreSQL server.")
	}
	s.conn = conn
	return conn.Raw(func(driver any) error {
		one, ok := driver.(*pgConn)
		if !ok {
			return fmt.Errorf("store: the driver is a %T", driver)
		}
		s.own = one.own()
		s.pid = s.own.PgConn().PID()
		s.lease.over(s.own.PgConn().Conn())
		return nil
	})
}

// suits refuses a server that could lose what it says it kept.
func (s *postgres) suits(ctx context.Context) error {
	var version int
	var fsync, pages, commits, encoding string
	if err := s.own.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('fsync'),
		current_setting('full_page_writes'), current_setting('synchronous_commit'), current_setting('server_encoding')`).
		Scan(&version, &fsync, &pages, &commits, &encoding); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	refuse := func(format string, args ...any) error {
		return capabilities.Errorf(capabilities.CodeLedgerUnavailable, format, args...).
			WithHint("A record needs PostgreSQL 13 or newer, a database in UTF8, and fsync and full_page_writes on.")
	}
	switch {
	case version < oldestServer:
		return refuse("the database is PostgreSQL %d", version/10000)
	case encoding != "UTF8":
		return refuse("the database is in %s", encoding)
	case fsync != "on" || pages != "on":
		return refuse("the database does not keep what it acknowledges (fsync %s, full_page_writes %s)", fsync, pages)
	}
	if commits == "off" || commits == "local" {
		_, err := s.own.Exec(ctx, "SET synchronous_commit = on")
		return err
	}
	return nil
}

func (s *postgres) lockID() int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.schema))
	return int32(h.Sum32() >> 1) //nolint:gosec // 31 bits
}

// lock takes the schema for this connection. The server may not have seen yet that the one before
// is gone.
func (s *postgres) lock(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait+connectLimit)
	defer cancel()
	for until := time.Now().Add(wait); ; {
		var got bool
		try := "SELECT pg_try_advisory_lock($1, $2)"
		if s.fleet != nil { // members share it, and keep out who wants it alone
			try = "SELECT pg_try_advisory_lock_shared($1, $2)"
		}
		if err := s.own.QueryRow(ctx, try, int32(lockRoom), s.lockID()).Scan(&got); err != nil {
			return away(err)
		}
		if got {
			return nil
		}
		if time.Now().After(until) {
			return capabilities.Wrap(capabilities.CodeConflict, errHeld, "Another gateway uses this store.").
				WithHint("Stop the gateway that runs on it, or give this one another schema.")
		}
		select {
		case <-ctx.Done():
			return away(ctx.Err())
		case <-time.After(retryAway / 2):
		}
	}
}

// lay makes the schema with what every site has.
func (s *postgres) lay(ctx context.Context) error {
	var there bool
	err := s.own.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", s.schema+".store_writer").Scan(&there)
	if err != nil || there {
		return err
	}
	_, err = s.own.Exec(ctx, `BEGIN; CREATE SCHEMA IF NOT EXISTS "`+s.schema+`"; `+functions+`; COMMIT`)
	return err
}

// take makes this the schema's writer.
func (s *postgres) take(ctx context.Context) error {
	var site, moved string
	if err := s.own.QueryRow(ctx, "SELECT site, moved FROM store_writer").Scan(&site, &moved); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if site != "" && s.site != "" && site != s.site {
		return capabilities.Errorf(capabilities.CodeConflict, "This store is that of site %s.", site).
			WithHint("Give this site a schema of its own with ?schema=.")
	}
	if site != "" && s.vacant {
		return capabilities.Errorf(capabilities.CodeConflict, "There is a store already at that address, of site %s.", site).
			WithHint("Name another schema with ?schema=.")
	}
	if site == "" && s.existing {
		return capabilities.Errorf(capabilities.CodeConflict, "The site's store is not at that address: nothing was ever kept there.").
			WithHint("Look at the address, and at the schema that ?schema= names. A database that was lost is restored from a backup.")
	}
	if moved != "" {
		return capabilities.Errorf(capabilities.CodeConflict, "The site moved from this store at %s.", moved).
			WithHint("Use the store that it moved to.")
	}
	if s.fleet != nil {
		if err := s.join(ctx); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	if err := s.own.QueryRow(ctx, `UPDATE store_writer SET epoch = epoch + 1, lease_ms = 0, site = CASE WHEN site = '' THEN $1 ELSE site END
		RETURNING epoch, grouped`, s.site).Scan(&s.epoch, &s.grouped); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if s.fleet != nil { // it counts its own groups
		s.grouped = 0
	}
	_, err := s.own.Exec(ctx, "SET statement_timeout = 0") // steps take as long as they take
	return err
}

func (s *postgres) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), statementLimit)
	defer cancel()
	if _, err := s.own.Exec(ctx, "SET statement_timeout = "+s.RuntimeParams["statement_timeout"]); err != nil {
		return away(err)
	}
	if s.fleet != nil {
		if _, err := s.own.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", int32(lockTables), s.lockID()); err != nil {
			return away(err)
		}
	}
	s.readDB = sql.OpenDB(s.connector(map[string]string{
		"default_transaction_read_only": "on", "default_transaction_isolation": "repeatable read",
	}))
	s.readDB.SetMaxOpenConns(s.readers)
	s.readDB.SetMaxIdleConns(max(1, s.readers/2))
	s.readDB.SetConnMaxIdleTime(time.Minute)
	return nil
}

// run connects again while the database is away, although nobody writes, and renews the lease.
func (s *postgres) run(ctx context.Context) error {
	if s.lease.length > 0 {
		ctx, cancel := context.WithCancel(ctx)
		if err := s.Write(ctx, func(tx *Tx) error { // a start takes as long as it takes
			if s.fleet != nil {
				_, err := tx.Exec("UPDATE store_member SET lease_ms = $1 WHERE member = $2", s.lease.length.Milliseconds(), s.fleet.member)
				return err
			}
			_, err := tx.Exec("UPDATE store_writer SET lease_ms = $1", s.lease.length.Milliseconds())
			return err
		}); err != nil {
			s.log.Warn("store.lease.not_taken", "err", err)
		}
		var renewing sync.WaitGroup
		renewing.Go(func() { s.renews(ctx) })
		if s.fleet != nil {
			renewing.Go(func() { s.follows(ctx) })
		}
		defer renewing.Wait()
		defer cancel()
	}
	tick := time.NewTicker(checkpointTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.fault:
			return s.poison.Load()
		case <-tick.C:
		}
		if s.lease.ended() {
			_ = s.judge(errLapsed)
			s.lease.cut()
			return s.poison.Load()
		}
		if s.refused.Load() {
			_ = s.Write(ctx, func(*Tx) error { return errNothing })
		}
	}
}

func (s *postgres) release() error {
	s.leaves()
	s.lease.end()
	return nil
}

func (s *postgres) text(query string) string { return query } // turned with its values

func (s *postgres) steps(m Migration) string { return tables(m) }

// hang ends the connection that is there, as far as one is.
func (s *postgres) hang() {
	for _, stmt := range s.stmts {
		_ = stmt.Close()
	}
	clear(s.stmts)
	if s.own != nil && !s.own.IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = s.own.Close(ctx)
		cancel()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.conn = nil
	if s.db != nil {
		_ = s.db.Close()
	}
}

// again connects the same writer once more, and reads how many groups were kept.
func (s *postgres) again() error {
	if time.Since(s.tried) < retryAway {
		return errAway
	}
	s.tried = time.Now()
	old := s.pid
	s.hang()
	ctx, cancel := context.WithTimeout(s.lease.life, 2*connectLimit)
	defer cancel()
	if err := s.dial(ctx); err != nil {
		s.conn = nil
		return away(err)
	}
	if err := s.suits(ctx); err != nil {
		s.hang()
		return err
	}
	// The connection that broke may live on at the server, with a group that it has not begun to keep.
	if _, err := s.own.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = $1 AND
		objid = $2 AND pid = $3 AND granted`, uint32(lockRoom), uint32(s.lockID()), int32(old)); err != nil { //nolint:gosec // a process's number
		s.hang()
		return away(err)
	}
	if err := s.lock(ctx, takeOverWait); err != nil {
		s.hang()
		if capabilities.CodeOf(err) == capabilities.CodeConflict {
			return errReplaced
		}
		return err
	}
	if s.fleet != nil {
		if err := s.returns(ctx); err != nil {
			s.hang()
			return err
		}
		s.log.Info("store.database.back", "pid", s.pid)
		return nil
	}
	var epoch int64
	if err := s.own.QueryRow(ctx, "SELECT epoch, grouped FROM store_writer").Scan(&epoch, &s.grouped); err != nil {
		s.hang()
		return away(err)
	}
	if epoch != s.epoch {
		s.hang()
		return errReplaced
	}
	s.log.Info("store.database.back", "pid", s.pid)
	return nil
}
