package opencalls

import (
	"context"
	"database/sql"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Where several gateways serve at once, every open call has a row, with the member that took it.
// The mark is no one's then: whatever is open stands in a row, so it may stand at the ledger's end.

// ErrTaken is why a call is not noted as open: another gateway has one with its request ID.
var ErrTaken = errors.New("opencalls: another gateway has taken a call with this request ID")

// several reports whether other gateways may have open calls in this store.
func (b *Book) several() bool { return b.opts.Store.Member() != "" }

// insertIn notes c as open and this member's. Under a request ID that another gateway has taken
// meanwhile nothing is carried out: all commits have one order, so one of two finds the other.
func (b *Book) insertIn(tx *store.Tx, c *Call) error {
	c.Member = b.opts.Store.Member()
	if c.Request != "" {
		var one int
		err := tx.QueryRow(`SELECT 1 FROM calls WHERE principal = $1 AND request_id = $2 AND COALESCE(person, $3) = $3`, string(c.Principal),
			string(c.Request), c.Person).Scan(&one)
		if err == nil {
			return capabilities.Wrap(capabilities.CodeConflict, ErrTaken,
				"Another gateway of the site has taken a call with this request ID meanwhile.").
				WithHint("Repeat it: it gets the answer of that call.")
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	return insert(tx, c)
}

// Elsewhere reports whether a call is open at another gateway that serves.
func (b *Book) Elsewhere(ctx context.Context, c *Call) (bool, error) {
	if !b.several() || c.State != Open || c.Member == b.opts.Store.Member() {
		return false, nil
	}
	return b.opts.Store.In(ctx, c.Member)
}

// TakeIn makes the unsettled calls of a member that was put out this one's, and returns them.
func (b *Book) TakeIn(tx *store.Tx, member string) (taken []Call, err error) {
	rows, err := tx.Query(`SELECT `+rowColumns+` FROM calls WHERE `+isUnsettled+` AND member = $1 ORDER BY created_ms`, member)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanCall(rows.Scan)
		if err != nil {
			return nil, err
		}
		r.Member = b.opts.Store.Member()
		taken = append(taken, r)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(taken) == 0 {
		return nil, err
	}
	_, err = tx.Exec(`UPDATE calls SET member = $1 WHERE `+isUnsettled+` AND member = $2`, b.opts.Store.Member(), member)
	return taken, err
}

// leftOpenAmong returns what a gateway left open that served alone, and makes it this member's.
// Other members' calls are theirs, or are taken over when they are put out. It runs as one
// function of the store, so that no other member commits meanwhile.
func (b *Book) leftOpenAmong(ctx context.Context) (open []Call, err error) {
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		open = nil
		left, err := b.unclaimedIn(ctx, tx)
		if err != nil {
			return err
		}
		for i := range left {
			r := &left[i]
			r.Member = b.opts.Store.Member()
			n, err := tx.Exec(`UPDATE calls SET member = $1 WHERE `+isUnsettled+` AND call_id = $2`, r.Member, string(r.ID))
			if err == nil && n == 0 {
				err = insert(tx, r)
			}
			if err != nil {
				return err
			}
			open = append(open, *r)
		}
		tip, _ := b.opts.Ledger.Tip()
		tx.OnCommit(func() { b.open.begin(tip) })
		return setMark(tx, tip)
	})
	return open, err
}

// unclaimedIn returns the unsettled calls that are no member's.
func (b *Book) unclaimedIn(ctx context.Context, tx *store.Tx) (unclaimed []Call, err error) {
	var seq int64
	marked := true
	switch err := tx.QueryRow(`SELECT seq FROM calls_mark`).Scan(&seq); {
	case errors.Is(err, sql.ErrNoRows):
		marked = false
	case err != nil:
		return nil, err
	}
	rows, err := unsettled(ctx, b.opts.Store.Read())
	if err != nil {
		return nil, err
	}
	came, ended := map[capabilities.CallID]*Call{}, map[capabilities.CallID]bool{}
	if marked {
		if came, ended, err = b.since(ctx, uint64(seq)); err != nil {
			return nil, err
		}
	}
	for _, r := range rows {
		delete(came, r.ID)
		if r.Member == "" && !(r.State == Open && r.Request == "" && ended[r.ID]) {
			unclaimed = append(unclaimed, r)
		}
	}
	for _, r := range came {
		unclaimed = append(unclaimed, *r)
	}
	return unclaimed, nil
}
