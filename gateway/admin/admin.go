package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the table of this room: the calls whose end is not recorded yet.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "admin", Version: 1, SQL: `
		CREATE TABLE admin_calls (
			call_id    TEXT PRIMARY KEY,
			tool       TEXT NOT NULL,
			principal  TEXT NOT NULL,
			lane       TEXT NOT NULL,
			created_ms BIGINT NOT NULL
		)`},
		// Of several gateways that serve at once, the one that carries it out.
		{Room: "admin", Version: 2, SQL: `ALTER TABLE admin_calls ADD COLUMN member TEXT NOT NULL DEFAULT ''`}}
}

// Ledger takes packets; gateway/ledger implements it.
type Ledger interface {
	AppendIn(tx *store.Tx, drafts ...ledger.Draft) ([]ledger.Packet, error)
}

// Tools finds descriptors; gateway/registry implements it.
type Tools interface {
	Get(capabilities.ToolID) (*catalog.Descriptor, bool)
}

// Options of New; all required unless a default is named.
type Options struct {
	Policy func() *policy.Engine // the policy in force
	Tools  Tools
	Store  *store.Store // opened with Migrations
	Ledger Ledger
	Now    func() time.Time // default time.Now
	Log    *slog.Logger     // default: discards
}

// Desk carries admin work out. All methods are safe for concurrent use.
type Desk struct{ opts Options }

// New makes one; it starts nothing.
func New(o Options) (*Desk, error) {
	if o.Policy == nil || o.Tools == nil || o.Store == nil || o.Ledger == nil {
		return nil, errors.New("admin: an Options field that is required is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Desk{o}, nil
}

// Do carries out a piece of admin work once its request, decision, grant and intent are durable,
// and records how it ended. fields are those of the request, of which the descriptor's are
// recorded. Errors: the policy's refusal, CodeLedgerUnavailable where nothing could be recorded
// and so nothing was done, and the work's own.
func (d *Desk) Do(ctx context.Context, a Asked, fields map[string]json.RawMessage, work func(context.Context) error) error {
	desc, ok := d.opts.Tools.Get(a.Tool)
	if !ok {
		return capabilities.Errorf(capabilities.CodeInternal, "%s has no descriptor", a.Tool)
	}
	a.Touches = Touches(desc, fields)
	c, err := Decide(d.opts.Policy(), a, d.opts.Now())
	if err != nil {
		return err
	}
	if c.Grant == nil {
		return d.refuse(ctx, c)
	}
	err = d.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
		if _, err := d.opts.Ledger.AppendIn(tx, append(c.Begun(), c.Intent())...); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO admin_calls (call_id, tool, principal, lane, created_ms, member) VALUES ($1, $2, $3, $4, $5, $6)`,
			string(c.ID), string(c.Tool), string(c.By), string(c.Lane), c.began.UnixMilli(), d.opts.Store.Member())
		return err
	})
	if err != nil {
		d.opts.Log.Error("admin.unrecorded", "call", c.ID, "tool", c.Tool, "principal", c.By, "err", err)
		if capabilities.CodeOf(err) == capabilities.CodeInternal {
			return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
		}
		return err
	}
	ended := false
	defer func() {
		if !ended { // it panicked
			d.end(ctx, c, &capabilities.Error{Code: capabilities.CodeUnknownOutcome})
		}
	}()
	err = work(ctx)
	ended = true
	d.end(ctx, c, err)
	return err
}

// refuse records what policy denied.
func (d *Desk) refuse(ctx context.Context, c *Call) error {
	err := d.opts.Store.WriteTerminal(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		_, err := d.opts.Ledger.AppendIn(tx, append(c.Begun(), c.Refusal())...)
		return err
	})
	if err != nil { // it is refused all the same
		d.opts.Log.Error("admin.unrecorded", "call", c.ID, "tool", c.Tool, "principal", c.By, "err", err)
	}
	return capabilities.Errorf(c.Decision.Code, "%s", c.Decision.Reason)
}

// end records how a call ended. It was carried out, whatever becomes of the record; what is not
// recorded now is after the next start.
func (d *Desk) end(ctx context.Context, c *Call, err error) {
	if err := d.endAs(context.WithoutCancel(ctx), c.ID, c.Ended(err, d.opts.Now())); err != nil {
		d.opts.Log.Error("admin.unrecorded", "call", c.ID, "tool", c.Tool, "principal", c.By, "err", err)
	}
	d.opts.Log.Info("admin.done", "call", c.ID, "tool", c.Tool, "principal", c.By, "code", capabilities.CodeOf(err))
}

func (d *Desk) endAs(ctx context.Context, call capabilities.CallID, last ledger.Draft) error {
	return d.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error { return d.endedIn(tx, call, last) })
}

// endedIn records the end of a call, unless it has one: another gateway may have ended it, which
// took this one for gone.
func (d *Desk) endedIn(tx *store.Tx, call capabilities.CallID, last ledger.Draft) error {
	n, err := tx.Exec(`DELETE FROM admin_calls WHERE call_id = $1`, string(call))
	if err != nil || n == 0 {
		return err
	}
	_, err = d.opts.Ledger.AppendIn(tx, last)
	return err
}

// Recover ends the calls that an earlier process left open: nobody knows how far they came. Calls
// of a gateway that serves beside this one are its own.
func (d *Desk) Recover(ctx context.Context) error {
	return d.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
		if d.opts.Store.Member() != "" {
			return d.EndIn(tx, "")
		}
		return d.endIn(tx, `SELECT `+columns+` FROM admin_calls ORDER BY created_ms`)
	})
}

const columns = `call_id, tool, principal, lane, created_ms`

// EndIn ends the calls that a gateway left open which was put out, as part of tx.
func (d *Desk) EndIn(tx *store.Tx, member string) error {
	return d.endIn(tx, `SELECT `+columns+` FROM admin_calls WHERE member = $1 ORDER BY created_ms`, member)
}

func (d *Desk) endIn(tx *store.Tx, query string, args ...any) error {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return err
	}
	var open []*Call
	for rows.Next() {
		c, ms := &Call{}, int64(0)
		if err := rows.Scan(&c.ID, &c.Tool, &c.By, &c.Lane, &ms); err != nil {
			return errors.Join(err, rows.Close())
		}
		c.began = time.UnixMilli(ms)
		open = append(open, c)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, c := range open {
		d.opts.Log.Warn("admin.recovering", "call", c.ID, "tool", c.Tool, "principal", c.By)
		if err := d.endedIn(tx, c.ID, c.Ended(&capabilities.Error{Code: capabilities.CodeUnknownOutcome}, d.opts.Now())); err != nil {
			return err
		}
	}
	return nil
}
