package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/handrail-dev/handrail/capabilities"
)

// Snapshot writes the store of a gateway's folder, as it is at one moment, to a new file at to. A
// gateway may work with it meanwhile: writers do not wait. The copy holds what can be read and
// nothing of what was deleted; migrations make it where the store is no file. It returns each
// room's schema version. Only one process makes one at a time; a file that an earlier one left at
// to is replaced.
func Snapshot(ctx context.Context, dir, to string, migrations []Migration) (schema map[string]int, err error) {
	path, err := filepath.Abs(filepath.Join(dir, FileName))
	if err != nil {
		return nil, err
	}
	elsewhere, err := PlaceOf(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil && elsewhere == "" {
		return nil, err
	}
	unlock, err := lockSnapshot(ctx, to)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// The file is made first, so that nobody else may read it.
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, RoomFor(err)
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if elsewhere != "" {
		if schema, err = snapshotOf(ctx, elsewhere, to, migrations); err != nil {
			err = errors.Join(err, os.Remove(to))
		}
		return schema, err
	}
	db, conn, err := openConn(ctx, path, "_busy_timeout=5000&_pragma=wal_autocheckpoint(0)&_pragma=temp_store(memory)")
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = keepWAL(conn) // this may be the last connection; the next start is to find what the last one left
		_ = conn.Close()
		_ = db.Close()
	}()
	if schema, err = schemaOf(ctx, conn); err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "VACUUM INTO $1", to); err != nil {
		return nil, errors.Join(RoomFor(err), os.Remove(to))
	}
	return schema, nil
}

// DropSnapshot removes what a Snapshot left that was killed: what is deleted in the database later
// must not go on being there. One that is being made stays.
func DropSnapshot(ctx context.Context, to string) error {
	_, whole := os.Stat(to)
	_, part := os.Stat(to + partEnd)
	if errors.Is(whole, os.ErrNotExist) && errors.Is(part, os.ErrNotExist) {
		return nil
	}
	unlock, err := lockSnapshot(ctx, to)
	if capabilities.CodeOf(err) == capabilities.CodeConflict {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return dropPart(to)
}

// lockSnapshot keeps other processes from to, until the function that it returns, or the end of
// this process.
func lockSnapshot(ctx context.Context, to string) (unlock func(), err error) {
	f, err := os.OpenFile(to+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, RoomFor(err)
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	db, conn, err := openConn(ctx, to+".lock", "_busy_timeout=0&_synchronous=OFF&_journal_mode=MEMORY")
	if err != nil {
		return nil, RoomFor(err)
	}
	unlock = func() {
		_ = conn.Close()
		_ = db.Close()
	}
	if _, err := conn.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		unlock()
		if codeOf(err)&0xff == sqliteBusy {
			return nil, capabilities.Wrap(capabilities.CodeConflict, err, "Another backup of this data directory is being made.").
				WithHint("Wait until it is done.")
		}
		return nil, RoomFor(err)
	}
	return unlock, nil
}

// schemaOf returns the newest step of each room that was applied.
func schemaOf(ctx context.Context, db asker) (map[string]int, error) {
	rows, err := db.QueryContext(ctx, "SELECT room, MAX(version) FROM schema_migration GROUP BY room")
	if err != nil {
		return nil, fmt.Errorf("store: reading migrations: %w", err)
	}
	defer rows.Close()
	schema := map[string]int{}
	for rows.Next() {
		var room string
		var version int
		if err := rows.Scan(&room, &version); err != nil {
			return nil, fmt.Errorf("store: reading migrations: %w", err)
		}
		schema[room] = version
	}
	return schema, rows.Err()
}

// Newer returns an error if schema has steps that migrations does not know.
func Newer(schema map[string]int, migrations []Migration) error {
	known := map[string]int{}
	for _, m := range migrations {
		known[m.Room] = max(known[m.Room], m.Version)
	}
	for _, room := range slices.Sorted(maps.Keys(schema)) {
		if schema[room] > known[room] {
			return capabilities.Errorf(capabilities.CodeVersionSkew, "the store was written by a newer version (%s/%d)", room, schema[room]).
				WithHint("Use the program that wrote it, or a newer one.")
		}
	}
	return nil
}

// FreeBytes is how much room the disk of dir has for this account; not ok: the system does not say.
func FreeBytes(dir string) (free uint64, ok bool) { return freeBytes(dir) }

// isNoSpace is what systems say of a full disk; Windows has numbers of its own.
func isNoSpace(err error) bool {
	const windowsDiskFull = syscall.Errno(112)
	return errors.Is(err, syscall.ENOSPC) || runtime.GOOS == "windows" && errors.Is(err, windowsDiskFull)
}

// RoomFor words the error of a disk without room as CodeDiskFull; other errors stay.
func RoomFor(err error) error {
	if isDiskFull(err) || isNoSpace(err) {
		return capabilities.Wrap(capabilities.CodeDiskFull, err, "")
	}
	return err
}
