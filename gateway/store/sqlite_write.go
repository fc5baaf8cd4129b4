package store

import (
	"errors"
	"strconv"
	"strings"

	"modernc.org/sqlite"

	"github.com/handrail-dev/handrail/capabilities"
)

func (s lite) text(query string) string { return positional(query) }

// positional turns $1, $2, … into plain question marks where each stands once
// and in order, as they should. SQLite takes $n for names, and the driver looks
// up the name of every parameter on every execution.
func positional(query string) string {
	var b strings.Builder
	next, quoted := 1, false
	for i := 0; i < len(query); i++ {
		c := query[i]
		if c == '\'' {
			quoted = !quoted
		}
		if c != '$' || quoted {
			b.WriteByte(c)
			continue
		}
		end := i + 1
		for end < len(query) && query[end] >= '0' && query[end] <= '9' {
			end++
		}
		if n, err := strconv.Atoi(query[i+1 : end]); err != nil || n != next {
			return query
		}
		next++
		b.WriteByte('?')
		i = end - 1
	}
	return b.String()
}

func (s lite) steps(m Migration) string { return m.SQL }

func (s lite) begin() error { return s.exec("BEGIN IMMEDIATE") }

func (s lite) finish() error {
	err := s.exec("COMMIT")
	if isFailedSync(err) {
		_ = s.judge(err) // before anything else touches the file
	}
	return err
}

func (s lite) ran(*job) {}

func (s lite) faulty(err error) bool { return isFault(err) }

func (s lite) ruined(err error) string {
	if isFailedSync(err) {
		return "The gateway's disk failed to keep what was written; the gateway has to be restarted."
	}
	return ""
}

// admit refuses ordinary jobs while the reserve is spent: the room it left
// belongs to terminal packets.
func (s lite) admit(group []*job) []*job {
	if s.walLarge.Load() {
		s.walLarge.Store(false)
		if err := s.exec("PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
			s.checkpointFailed(err)
		}
	}
	spent := s.reserve.spent.Load()
	if s.reserve.restored() {
		if spent {
			s.refused.Store(false)
		}
		return group
	}
	admitted := group[:0:0]
	for _, j := range group {
		if j.terminal {
			admitted = append(admitted, j)
		} else {
			j.err = capabilities.Errorf(capabilities.CodeLedgerUnavailable, "The gateway's disk is full.")
		}
	}
	return admitted
}

// settle answers ordinary jobs of a group that found the disk full, and writes those that are
// terminal with the reserve.
func (s lite) settle(group []*job, err error) ([]*job, error) {
	if isDiskFull(err) {
		// Ordinary writes fail now; what is terminal gets the reserve.
		s.refused.Store(true)
		terminal := group[:0:0]
		for _, j := range group {
			if j.terminal {
				terminal = append(terminal, j)
			} else {
				j.err = unavailable(err)
			}
		}
		s.log.Error("store.disk.full", "err", unavailable(err), "cause", err, "terminal", len(terminal))
		if group = terminal; len(group) == 0 {
			return nil, err
		}
		for isDiskFull(err) && s.reserve.spend() {
			err = s.commit(group)
		}
	}
	return group, err
}

// checkpointFailed is no loss by itself, for the WAL still holds everything;
// unless a sync failed: trying again would then succeed without the pages that
// the kernel dropped.
func (s lite) checkpointFailed(err error) {
	if isFailedSync(err) {
		s.judge(err)
		return
	}
	s.log.Warn("store.checkpoint.failed", "err", err)
}

// SQLite's result codes that matter here (sqlite.org/rescode.html).
const (
	sqliteBusy    = 5
	sqliteNoMem   = 7
	sqliteIOErr   = 10
	sqliteCorrupt = 11
	sqliteFull    = 13
	sqliteNotADB  = 26

	ioErrWrite    = sqliteIOErr | 3<<8
	ioErrFsync    = sqliteIOErr | 4<<8
	ioErrDirFsync = sqliteIOErr | 5<<8
	ioErrShmSize  = sqliteIOErr | 19<<8
)

func codeOf(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// isFault reports an error of the machine, after which the transaction cannot
// go on, as opposed to one of the statement.
func isFault(err error) bool {
	switch codeOf(err) & 0xff {
	case sqliteNoMem, sqliteIOErr, sqliteCorrupt, sqliteFull, sqliteNotADB:
		return true
	}
	return false
}

// isDiskFull includes a quota or a limit on the file's size, which SQLite
// reports as a failed write, and no room for the index of its log.
func isDiskFull(err error) bool {
	c := codeOf(err)
	return c&0xff == sqliteFull || c == ioErrWrite || c == ioErrShmSize
}

// isFailedSync is what cannot be tried again: the kernel may have dropped the
// pages that it failed to write. A database that is not one any more belongs
// here too.
func isFailedSync(err error) bool {
	switch c := codeOf(err); {
	case c == ioErrFsync, c == ioErrDirFsync, c&0xff == sqliteCorrupt, c&0xff == sqliteNotADB:
		return true
	}
	return false
}
