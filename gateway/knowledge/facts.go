package knowledge

import (
	"context"
	"database/sql"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Bounds of what is kept.
const (
	MaxSubject = 256    // bytes
	MaxText    = 4096   // bytes of what a fact says
	MaxFacts   = 10_000 // of one principal
	maxListed  = 1000   // at once
	maxSource  = 256    // bytes
	sweepEvery = time.Hour
)

// Sensitivity is how private a fact is: it decides which consent a worker needs for keeping it. The
// zero value is invalid.
type Sensitivity string

// The sensitivities.
const (
	Low  Sensitivity = "low"  // kept without asking
	High Sensitivity = "high" // names, places, health: kept only after a person agreed
)

// Fact is one fact of a principal.
type Fact struct {
	Principal   capabilities.PrincipalID // whose; required
	Subject     string                   // what it is about, such as "project"; required
	Attribute   string                   // which of its properties, such as "language"; required
	Text        string                   // what holds; required
	Source      string                   // where it is from: a call's ID, or words; required
	Confidence  float64                  // from 0 to 1
	Sensitivity Sensitivity              // required
	Created     time.Time                // set by Put
	Expires     time.Time                // zero: it holds until it is replaced
}

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "knowledge", Version: 1, SQL: `
		CREATE TABLE knowledge_facts (
			principal   TEXT NOT NULL,
			subject     TEXT NOT NULL,
			attribute   TEXT NOT NULL,
			text        TEXT NOT NULL,
			source      TEXT NOT NULL,
			confidence  REAL NOT NULL,
			sensitivity TEXT NOT NULL,
			created_ms  INTEGER NOT NULL,
			expires_ms  INTEGER NOT NULL,
			PRIMARY KEY (principal, subject, attribute)
		) STRICT;
		CREATE INDEX knowledge_facts_expires ON knowledge_facts (expires_ms) WHERE expires_ms > 0`}}
}

// Options of New.
type Options struct {
	Store *store.Store // required, opened with Migrations
	// Record writes a packet in the same transaction as the change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	Now    func() time.Time // default time.Now
}

// Facts is all facts. Its methods are safe for concurrent use.
type Facts struct{ opts Options }

// New makes it over a store; Run sweeps.
func New(o Options) (*Facts, error) {
	if o.Store == nil {
		return nil, errors.New("knowledge: Options.Store is required")
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Facts{o}, nil
}

func (f *Fact) validate(now time.Time) error {
	text := func(name, s string, most int) error {
		if s == "" || len(s) > most || !utf8.ValidString(s) {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "%s must be 1 to %d bytes of text", name, most)
		}
		return nil
	}
	if err := errors.Join(
		capabilities.ValidateName("principal", string(f.Principal), 128),
		text("subject", f.Subject, MaxSubject), text("attribute", f.Attribute, MaxSubject), text("text", f.Text, MaxText), text("source", f.Source, maxSource),
	); err != nil {
		return err
	}
	switch {
	case !(f.Confidence >= 0 && f.Confidence <= 1): // NaN is neither
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "confidence must be from 0 to 1")
	case f.Sensitivity != Low && f.Sensitivity != High:
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "sensitivity must be low or high")
	case !f.Expires.IsZero() && !f.Expires.After(now):
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "a fact that has expired is not kept")
	}
	return nil
}

// stored is the body of knowledge.fact.stored and knowledge.fact.forgotten: the words of a fact are
// not for the ledger.
type stored struct {
	Subject     string      `json:"subject"`
	Attribute   string      `json:"attribute"`
	Source      string      `json:"source,omitempty"`
	Confidence  float64     `json:"confidence,omitempty"`
	Sensitivity Sensitivity `json:"sensitivity,omitempty"`
}

// Put keeps a fact in place of the one of the same principal, subject and attribute.
// CodeInvalidRequest for one out of bounds, CodeOverloaded if the principal has too many.
func (k *Facts) Put(ctx context.Context, f Fact) error {
	now := k.opts.Now()
	if err := f.validate(now); err != nil {
		return err
	}
	return k.opts.Store.Write(ctx, func(tx *store.Tx) error {
		var others int
		if err := tx.QueryRow(`SELECT count(*) FROM knowledge_facts WHERE principal = $1 AND NOT (subject = $2 AND attribute = $3)`,
			string(f.Principal), f.Subject, f.Attribute).Scan(&others); err != nil {
			return err
		}
		if others >= MaxFacts {
			return capabilities.Errorf(capabilities.CodeOverloaded, "this principal has %d facts already", MaxFacts)
		}
		if _, err := tx.Exec(`INSERT INTO knowledge_facts (principal, subject, attribute, text, source, confidence, sensitivity, created_ms, expires_ms)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (principal, subject, attribute) DO UPDATE SET text = excluded.text, source = excluded.source,
				confidence = excluded.confidence, sensitivity = excluded.sensitivity, created_ms = excluded.created_ms, expires_ms = excluded.expires_ms`,
			string(f.Principal), f.Subject, f.Attribute, f.Text, f.Source, f.Confidence, string(f.Sensitivity), now.UnixMilli(), milli(f.Expires)); err != nil {
			return err
		}
		return k.opts.Record(tx, "knowledge.fact.stored", f.Principal, stored{f.Subject, f.Attribute, f.Source, f.Confidence, f.Sensitivity})
	})
}

const columns = `principal, subject, attribute, text, source, confidence, sensitivity, created_ms, expires_ms`

// Get returns the fact of a principal about an attribute of a subject; CodeNotFound if there is
// none that holds.
func (k *Facts) Get(ctx context.Context, p capabilities.PrincipalID, subject, attribute string) (Fact, error) {
	f, err := scan(k.opts.Store.Read().QueryRowContext(ctx, `SELECT `+columns+` FROM knowledge_facts
		WHERE principal = $1 AND subject = $2 AND attribute = $3 AND (expires_ms = 0 OR expires_ms > $4)`,
		string(p), subject, attribute, k.opts.Now().UnixMilli()))
	if errors.Is(err, sql.ErrNoRows) {
		return Fact{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no such fact")
	}
	if err != nil {
		return Fact{}, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return f, nil
}

// List returns the facts of a principal that hold, about one subject or, if that is empty, about
// all, in the order of subject and attribute; at most 1,000.
func (k *Facts) List(ctx context.Context, p capabilities.PrincipalID, subject string) ([]Fact, error) {
	rows, err := k.opts.Store.Read().QueryContext(ctx, `SELECT `+columns+` FROM knowledge_facts
		WHERE principal = $1 AND ($2 = '' OR subject = $3) AND (expires_ms = 0 OR expires_ms > $4) ORDER BY subject, attribute LIMIT $5`,
		string(p), subject, subject, k.opts.Now().UnixMilli(), maxListed)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	list := []Fact{}
	for rows.Next() {
		f, err := scan(rows)
		if err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		list = append(list, f)
	}
	if err := rows.Err(); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return list, nil
}

// Forget removes a fact; CodeNotFound if there is none.
func (k *Facts) Forget(ctx context.Context, p capabilities.PrincipalID, subject, attribute string) error {
	return k.opts.Store.Write(ctx, func(tx *store.Tx) error {
		n, err := tx.Exec(`DELETE FROM knowledge_facts WHERE principal = $1 AND subject = $2 AND attribute = $3`, string(p), subject, attribute)
		if err != nil {
			return err
		}
		if n == 0 {
			return capabilities.Errorf(capabilities.CodeNotFound, "there is no such fact")
		}
		return k.opts.Record(tx, "knowledge.fact.forgotten", p, stored{Subject: subject, Attribute: attribute})
	})
}

// Run removes what has expired, at its start and then every hour, until ctx ends.
func (k *Facts) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		// One that fails is tried again: what expired is returned to nobody meanwhile.
		_ = k.opts.Store.Tidy(ctx, func(tx *store.Tx) error {
			_, err := tx.Exec(`DELETE FROM knowledge_facts WHERE expires_ms > 0 AND expires_ms <= $1`, k.opts.Now().UnixMilli())
			return err
		})
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func scan(row interface{ Scan(...any) error }) (f Fact, err error) {
	var created, expires int64
	err = row.Scan(&f.Principal, &f.Subject, &f.Attribute, &f.Text, &f.Source, &f.Confidence, &f.Sensitivity, &created, &expires)
	f.Created = time.UnixMilli(created).UTC()
	if expires > 0 {
		f.Expires = time.UnixMilli(expires).UTC()
	}
	return f, err
}

func milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
