package knowledge

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fact"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Bounds of what is kept.
const (
	MaxSubject = 256 // bytes
	MaxText    = fact.MaxText
	MaxFacts   = 10_000 // of one principal
	MaxWords   = 12     // of a question by which facts are searched
	maxSource  = 256    // bytes
	sweepEvery = time.Hour
)

// Fact is one fact of a principal.
type Fact struct {
	ID          string                   // set by Put: a replaced fact keeps it
	Principal   capabilities.PrincipalID // whose; required
	Subject     string                   // what it is about, such as "project"; required
	Attribute   string                   // which of its properties, such as "language"; required
	Text        string                   // what holds; required
	Source      string                   // where it is from: a call's ID, or words; required
	Confidence  float64                  // from 0 to 1
	Sensitivity fact.Sensitivity         // required; raised to what the text says of itself
	Agreed      bool                     // a person agreed to keep it; required of a sensitive one
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
		CREATE INDEX knowledge_facts_expires ON knowledge_facts (expires_ms) WHERE expires_ms > 0`},
		// A key of its own: the index of words holds it, and a table without one is numbered anew by
		// VACUUM.
		{Room: "knowledge", Version: 2, SQL: `
		ALTER TABLE knowledge_facts RENAME TO knowledge_facts_1;
		DROP INDEX knowledge_facts_expires;
		CREATE TABLE knowledge_facts (
			fact        INTEGER PRIMARY KEY,
			id          TEXT NOT NULL UNIQUE,
			principal   TEXT NOT NULL,
			subject     TEXT NOT NULL,
			attribute   TEXT NOT NULL,
			text        TEXT NOT NULL,
			source      TEXT NOT NULL,
			confidence  REAL NOT NULL,
			sensitivity TEXT NOT NULL,
			created_ms  INTEGER NOT NULL,
			expires_ms  INTEGER NOT NULL,
			UNIQUE (principal, subject, attribute)
		) STRICT;
		INSERT INTO knowledge_facts (id, principal, subject, attribute, text, source, confidence, sensitivity, created_ms, expires_ms)
			SELECT 'fact_' || lower(hex(randomblob(8))), principal, subject, attribute, text, source, confidence, sensitivity, created_ms, expires_ms FROM knowledge_facts_1;
		DROP TABLE knowledge_facts_1;
		CREATE INDEX knowledge_facts_expires ON knowledge_facts (expires_ms) WHERE expires_ms > 0;
		CREATE VIRTUAL TABLE knowledge_words USING fts5(principal, text, subject, attribute, content='knowledge_facts', content_rowid='fact', tokenize="unicode61 remove_diacritics 2", prefix='5 6');
		INSERT INTO knowledge_words (knowledge_words, rank) VALUES ('secure-delete', 1);
		INSERT INTO knowledge_words (knowledge_words) VALUES ('rebuild');
		CREATE TRIGGER knowledge_facts_insert AFTER INSERT ON knowledge_facts BEGIN
			INSERT INTO knowledge_words (rowid, principal, text, subject, attribute) VALUES (new.fact, new.principal, new.text, new.subject, new.attribute);
		END;
		CREATE TRIGGER knowledge_facts_delete AFTER DELETE ON knowledge_facts BEGIN
			INSERT INTO knowledge_words (knowledge_words, rowid, principal, text, subject, attribute) VALUES ('delete', old.fact, old.principal, old.text, old.subject, old.attribute);
		END;
		CREATE TRIGGER knowledge_facts_update AFTER UPDATE ON knowledge_facts BEGIN
			INSERT INTO knowledge_words (knowledge_words, rowid, principal, text, subject, attribute) VALUES ('delete', old.fact, old.principal, old.text, old.subject, old.attribute);
			INSERT INTO knowledge_words (rowid, principal, text, subject, attribute) VALUES (new.fact, new.principal, new.text, new.subject, new.attribute);
		END`, Postgres: factsOnPostgres}}
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
		text("subject", f.Subject, MaxSubject), text("attribute", f.Attribute, MaxSubject), text("text", f.Text, MaxText),
		text("source", f.Source, maxSource),
	); err != nil {
		return err
	}
	switch {
	case !(f.Confidence >= 0 && f.Confidence <= 1): // NaN is neither
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "confidence must be from 0 to 1")
	case f.Sensitivity != fact.Low && f.Sensitivity != fact.High:
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "sensitivity must be low or high")
	case !f.Expires.IsZero() && !f.Expires.After(now):
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "a fact that has expired is not kept")
	}
	return f.judge()
}

// judge raises the sensitivity to what the words say, and refuses what is not kept.
func (f *Fact) judge() error {
	for _, text := range []string{f.Text, f.Subject, f.Attribute} {
		switch j := fact.Judge(text); {
		case j.Credential:
			return capabilities.Errorf(capabilities.CodeForbidden, "a password, a key or a number to pay by is not remembered").
				WithAction(capabilities.Action{Key: capabilities.ActionSetSecret, Name: "NAME"}, "Keep it as a secret.")
		case j.Sensitivity == fact.High:
			f.Sensitivity = fact.High
		}
	}
	if f.Sensitivity == fact.High && !f.Agreed {
		return capabilities.Errorf(capabilities.CodeAcknowledgementRequired, "this is private: it is kept only after the person agreed").
			WithHint("Ask the person, and say with the fact that they agreed.")
	}
	return nil
}

// stored is the body of knowledge.fact.stored and knowledge.fact.forgotten: nothing of a fact's
// words is for the ledger, which cannot forget.
type stored struct {
	Fact        string           `json:"fact"`
	Source      string           `json:"source,omitempty"`
	Confidence  float64          `json:"confidence,omitempty"`
	Sensitivity fact.Sensitivity `json:"sensitivity,omitempty"`
	Agreed      bool             `json:"agreed,omitempty"`
	Expires     time.Time        `json:"expires_at,omitzero"`
}

// Put keeps a fact in place of the one of the same principal, subject and attribute, and returns
// it as it is kept. CodeInvalidRequest for one out of bounds, CodeOverloaded if the principal has
// too many, CodeForbidden for a credential, CodeAcknowledgementRequired for a private one that
// nobody agreed to.
func (k *Facts) Put(ctx context.Context, f Fact) (Fact, error) {
	f.Created = k.opts.Now().UTC()
	return k.put(ctx, f)
}

func (k *Facts) put(ctx context.Context, f Fact) (Fact, error) {
	if err := f.validate(k.opts.Now()); err != nil {
		return Fact{}, err
	}
	err := k.opts.Store.Write(ctx, func(tx *store.Tx) error {
		var others int
		if err := tx.QueryRow(`SELECT count(*) FROM knowledge_facts WHERE principal = $1 AND NOT (subject = $2 AND attribute = $3)`,
			string(f.Principal), f.Subject, f.Attribute).Scan(&others); err != nil {
			return err
		}
		if others >= MaxFacts {
			return capabilities.Errorf(capabilities.CodeOverloaded, "this principal has %d facts already", MaxFacts)
		}
		if err := tx.QueryRow(
			`INSERT INTO knowledge_facts (id, principal, subject, attribute, text, source, confidence, sensitivity, created_ms, expires_ms)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (principal, subject, attribute) DO UPDATE SET text = excluded.text, source = excluded.source,
				confidence = excluded.confidence, sensitivity = excluded.sensitivity, created_ms = excluded.created_ms, expires_ms = excluded.expires_ms
			RETURNING id`,
			newID(), string(f.Principal), f.Subject, f.Attribute, f.Text, f.Source, f.Confidence, string(f.Sensitivity), milli(f.Created),
			milli(f.Expires)).Scan(&f.ID); err != nil {
			return err
		}
		return k.opts.Record(tx, "knowledge.fact.stored", f.Principal, stored{f.ID, f.Source, f.Confidence, f.Sensitivity, f.Agreed, f.Expires})
	})
	return f, err
}

// Edit is what a person changes of a fact.
type Edit struct {
	Text    string    // other words; "": they stay
	Agreed  bool      // the person agreed to those words
	Expires time.Time // zero: its end stays
	Lasting bool      // it has no end any more
}

// Edit replaces the words of a fact, as by wants them, or its end, and returns it; the errors of
// Put and Get. Of other words its source says so: the turn that it is from has others.
func (k *Facts) Edit(ctx context.Context, p, by capabilities.PrincipalID, id string, e Edit) (Fact, error) {
	switch {
	case e.Text == "" && e.Expires.IsZero() && !e.Lasting:
		return Fact{}, capabilities.
			Errorf(capabilities.CodeInvalidRequest, "a change has other words (text) or another end (expires_at, lasting)")
	case e.Lasting && !e.Expires.IsZero():
		return Fact{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "expires_at and lasting exclude each other")
	}
	f, err := k.Get(ctx, p, id)
	if err != nil {
		return Fact{}, err
	}
	if e.Lasting || !e.Expires.IsZero() {
		f.Expires = e.Expires
		if e.Text == f.Text {
			e.Text = ""
		}
	}
	if e.Text == "" {
		f.Agreed = true // to the words that it has, when it was kept
		return k.put(ctx, f)
	}
	f.Text, f.Agreed = e.Text, e.Agreed
	_, first, edited := strings.Cut(f.Source, beforeEdit)
	if !edited {
		first = f.Source
	}
	f.Source = capabilities.Clip(string(by)+beforeEdit+first, maxSource)
	return k.Put(ctx, f)
}

// beforeEdit stands between who gave a fact other words and where it was from before.
const beforeEdit = ", who gave it other words; before: "

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "fact_" + hex.EncodeToString(b[:])
}

const columns = `id, principal, subject, attribute, text, source, confidence, sensitivity, created_ms, expires_ms`

// Get returns a fact of a principal; CodeNotFound if there is none of that ID that holds.
func (k *Facts) Get(ctx context.Context, p capabilities.PrincipalID, id string) (Fact, error) {
	f, err := scan(k.opts.Store.Read().QueryRowContext(ctx, `SELECT `+columns+` FROM knowledge_facts
		WHERE principal = $1 AND id = $2 AND (expires_ms = 0 OR expires_ms > $3)`, string(p), id, k.opts.Now().UnixMilli()))
	if errors.Is(err, sql.ErrNoRows) {
		return Fact{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no such fact")
	}
	if err != nil {
		return Fact{}, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return f, nil
}

// List returns the facts of a principal that hold, the newest first; at most limit, and at most
// MaxFacts.
func (k *Facts) List(ctx context.Context, p capabilities.PrincipalID, limit int) ([]Fact, error) {
	return k.query(ctx, `SELECT `+columns+` FROM knowledge_facts
		WHERE principal = $1 AND (expires_ms = 0 OR expires_ms > $2) ORDER BY created_ms DESC, fact DESC LIMIT $3`,
		string(p), k.opts.Now().UnixMilli(), min(limit, MaxFacts))
}

// Search returns the facts of a principal that have words of a text, those with more of its rare
// words first. Of each word it looks at the newest facts alone, so that it takes as long among ten
// thousand facts as among ten.
func (k *Facts) Search(ctx context.Context, p capabilities.PrincipalID, text string, limit int) ([]Fact, error) {
	weight := map[int64]float64{}
	for _, term := range terms(text) {
		found, err := k.having(ctx, p, term)
		if err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		for _, f := range found {
			weight[f] += 1 / float64(1+len(found))
		}
	}
	best := slices.SortedFunc(maps.Keys(weight), func(a, b int64) int { return cmp.Or(cmp.Compare(weight[b], weight[a]), cmp.Compare(b, a)) })
	list := []Fact{}
	for _, f := range best[:min(len(best), max(limit, 0))] {
		one, err := k.query(ctx,
			`SELECT `+columns+` FROM knowledge_facts WHERE fact = $1 AND principal = $2 AND (expires_ms = 0 OR expires_ms > $3)`,
			f, string(p), k.opts.Now().UnixMilli())
		if err != nil {
			return nil, err
		}
		list = append(list, one...)
	}
	return list, nil
}

// Owners returns how many facts that hold each principal has who has any.
func (k *Facts) Owners(ctx context.Context) (map[capabilities.PrincipalID]int, error) {
	rows, err := k.opts.Store.Read().QueryContext(ctx, `SELECT principal, count(*) FROM knowledge_facts
		WHERE expires_ms = 0 OR expires_ms > $1 GROUP BY principal`, k.opts.Now().UnixMilli())
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	all := map[capabilities.PrincipalID]int{}
	for rows.Next() {
		var p capabilities.PrincipalID
		var n int
		if err := rows.Scan(&p, &n); err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		all[p] = n
	}
	if err := rows.Err(); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return all, nil
}

// newest is how many facts with one word are looked at.
const newest = 64

// having returns the newest facts of a principal with a term.
func (k *Facts) having(ctx context.Context, p capabilities.PrincipalID, term string) (found []int64, err error) {
	query, args := `SELECT rowid FROM knowledge_words WHERE knowledge_words MATCH $1 ORDER BY rowid DESC LIMIT $2`,
		[]any{`principal : "` + strings.ReplaceAll(string(p), `"`, `""`) + `" AND {text subject attribute} : ` + term, newest}
	if k.opts.Store.OnPostgres() {
		query, args = `SELECT fact FROM knowledge_facts WHERE principal = $1 AND words LIKE $2 ORDER BY fact DESC LIMIT $3`,
			[]any{string(p), like(term), newest}
	}
	rows, err := k.opts.Store.Read().QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var f int64
		if err := rows.Scan(&f); err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	return found, rows.Err()
}

// terms returns the longest words of a text as terms of FTS5; a long one may have another ending.
func terms(text string) []string {
	words := strings.FieldsFunc(fact.Fold(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = slices.DeleteFunc(words, func(w string) bool { return len(w) < 3 || common[w] || len(w) > 64 })
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	words = slices.Compact(words)
	list := make([]string, 0, MaxWords)
	for _, w := range words[:min(len(words), MaxWords)] {
		if r := []rune(w); len(r) > 5 && !strings.ContainsFunc(w, unicode.IsDigit) {
			list = append(list, `"`+string(r[:max(5, len(r)-4)])+`"*`)
		} else {
			list = append(list, `"`+w+`"`)
		}
	}
	return list
}

// common are words of questions, which nearly every fact has.
var common = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(
		`the and that what which when where who how did does you your mine about again tell told know remember said say have has was were are for with not this
		der die das den dem des ein eine und dass was wer wie wann welche welcher ich mein meine dir mir habe hat ist sind war uber noch mal weisst gesagt
		les des une est que qui quoi quel quelle quand comment mon mes sur avec dit sais
		los las una que quien cual cuando como mis con sobre dije sabes`) {
		m[w] = true
	}
	return m
}()

func (k *Facts) query(ctx context.Context, text string, args ...any) ([]Fact, error) {
	rows, err := k.opts.Store.Read().QueryContext(ctx, text, args...)
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

// Forget removes a fact and overwrites its words; CodeNotFound if there is none.
func (k *Facts) Forget(ctx context.Context, p capabilities.PrincipalID, id string) error {
	return k.opts.Store.Write(ctx, func(tx *store.Tx) error {
		n, err := tx.Exec(`DELETE FROM knowledge_facts WHERE principal = $1 AND id = $2`, string(p), id)
		if err != nil {
			return err
		}
		if n == 0 {
			return capabilities.Errorf(capabilities.CodeNotFound, "there is no such fact")
		}
		return k.opts.Record(tx, "knowledge.fact.forgotten", p, stored{Fact: id})
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
	err = row.Scan(&f.ID, &f.Principal, &f.Subject, &f.Attribute, &f.Text, &f.Source, &f.Confidence, &f.Sensitivity, &created, &expires)
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
