package principal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

const (
	tokenPrefix = "hrt_"
	tokenBytes  = 32 // 256 bits: nothing to guess, so a plain SHA-256 is enough to store
	maxTokens   = 10_000
	// keepEnded is how long a revoked or expired token stays listed.
	keepEnded = 90 * 24 * time.Hour
	maxTTL    = 10 * 365 * 24 * time.Hour
)

// Secret is a token as its holder sends it. It prints as its prefix only.
type Secret struct{ text string }

// Reveal returns the token itself; for showing it once, at its creation.
func (s Secret) Reveal() string { return s.text }

// String hides the token.
func (s Secret) String() string { return tokenPrefix + "…" }

// GoString hides the token.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the token.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

func newSecret(prefix string) Secret {
	var b [tokenBytes]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return Secret{prefix + base64.RawURLEncoding.EncodeToString(b[:])}
}

// Token is the record of one token, without its secret.
type Token struct {
	ID        string
	Principal capabilities.PrincipalID
	Role      Role
	Lane      capabilities.LaneID
	CreatedAt time.Time
	CreatedBy capabilities.PrincipalID
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time
	// Parent is the token that opened this session of the console; empty: it is no
	// session but a token that callers send themselves.
	Parent string
	// Opened is by what a session was opened: link, password, passkey or oidc; empty for a
	// token, and for a session that an earlier version opened.
	Opened string
	// Face is how MCP lists tools to it where an address says nothing: "search", "whole", or empty
	// for all but what is listed on request.
	Face Face
	// Client is the OAuth client that a person let in, in words; empty: it is no client's. Nobody
	// holds such a token itself: access tokens stand for it.
	Client string
	// Audience is the address that a client's access tokens are for.
	Audience string
	// Tools are the families of tools that it reaches, with commas; empty: what policy permits.
	Tools string
}

// Face is how much of the tools a list begins with. The zero value is all but what is listed on
// request.
type Face string

// FaceSearch is a list that begins with the search for tools, and with what is pinned.
const FaceSearch Face = "search"

// FaceWhole is a list of all tools, those that are listed on request included.
const FaceWhole Face = "whole"

// ParseFace reads "all" (or nothing), "whole" and "search".
func ParseFace(s string) (Face, error) {
	switch s {
	case "", "all":
		return "", nil
	case string(FaceSearch), string(FaceWhole):
		return Face(s), nil
	}
	return "", capabilities.Errorf(capabilities.CodeInvalidRequest, "face must be all, whole or search")
}

func (t *Token) identity() Identity {
	return Identity{TokenID: t.ID, Principal: t.Principal, Role: t.Role, Lane: t.Lane, Face: t.Face, Tools: t.Tools}
}

func (t *Token) refusal(now time.Time) error {
	switch {
	case !t.RevokedAt.IsZero():
		return capabilities.Errorf(capabilities.CodeUnauthenticated, "the token was revoked")
	case !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt):
		return capabilities.Errorf(capabilities.CodeUnauthenticated, "the token has expired")
	}
	return nil
}

// Spec is what a new token is to be.
type Spec struct {
	Principal capabilities.PrincipalID // required
	Role      Role                     // required
	Lane      capabilities.LaneID      // default: named like the principal
	TTL       time.Duration            // default: never expires
	Face      Face                     // default: all tools
}

// Site is the identity that makes the first token of a site; no token stands for it.
var Site = Identity{Principal: "site", Role: RoleAdmin}

// Options of New.
type Options struct {
	Store *store.Store // required, opened with Migrations
	// Record writes a packet in the same transaction as the change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error // body is a packet.Token
	// Authority says what callers may do; default: the shipped role rules do.
	Authority *Authority
	// CatchUp reads what other gateways of the site wrote: a person signs in at one, and comes to
	// another next. It is called for tokens that are not known, a few at a time. Default: there are
	// no others.
	CatchUp func() error
	Now     func() time.Time // default time.Now
	Log     *slog.Logger     // default: discards
}

// Tokens is the set of all tokens. Its methods are safe for concurrent use.
// Authentication is answered from memory: the database is read once, by Load.
type Tokens struct {
	opts     Options
	catching chan struct{} // full: enough are at it

	entering sync.Mutex // one person from outside at a time: the first sign-in makes the user
	writing  sync.Mutex // one change at a time: checks and writes belong together

	mu       sync.RWMutex
	byHash   map[[sha256.Size]byte]*Token // records are replaced, never changed
	hashes   map[string][sha256.Size]byte // by token ID
	watchers map[int]func(tokenID string)
	nextID   int
	logins   map[[sha256.Size]byte]login // by the hash of their code
	number   *number                     // that a terminal shows; nil: none
	users    map[capabilities.PrincipalID]*user

	hasher  *hasher
	guesses *guesses
}

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "principal", Version: 1, SQL: `
		CREATE TABLE token (
			token_id   TEXT PRIMARY KEY,
			hash       BLOB NOT NULL UNIQUE,
			principal  TEXT NOT NULL,
			role       TEXT NOT NULL,
			lane       TEXT NOT NULL,
			created_at INTEGER NOT NULL,
			created_by TEXT NOT NULL,
			expires_at INTEGER NOT NULL,
			revoked_at INTEGER NOT NULL
		) STRICT`},
		{Room: "principal", Version: 2, SQL: `ALTER TABLE token ADD COLUMN parent TEXT NOT NULL DEFAULT ''`},
		{Room: "principal", Version: 3, SQL: userTables},
		{Room: "principal", Version: 4, SQL: `ALTER TABLE token ADD COLUMN opened TEXT NOT NULL DEFAULT ''`},
		{Room: "principal", Version: 5, SQL: `ALTER TABLE token ADD COLUMN face TEXT NOT NULL DEFAULT ''`},
		{Room: "principal", Version: 6, SQL: clientColumns},
		{Room: "principal", Version: 7, SQL: `ALTER TABLE user ADD COLUMN outside TEXT NOT NULL DEFAULT ''`}}
}

// New makes an empty set; call Load before use.
func New(o Options) (*Tokens, error) {
	if o.Store == nil {
		return nil, errors.New("principal: Options.Store is required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Tokens{
		opts:     o,
		catching: make(chan struct{}, 4),
		byHash:   make(map[[sha256.Size]byte]*Token),
		hashes:   make(map[string][sha256.Size]byte),
		watchers: make(map[int]func(string)),
		logins:   make(map[[sha256.Size]byte]login),
		users:    make(map[capabilities.PrincipalID]*user),
		hasher:   newHasher(), guesses: newGuesses(),
	}, nil
}

// Load reads the tokens and forgets those that ended long ago.
func (t *Tokens) Load(ctx context.Context) error {
	horizon, sessions := t.opts.Now().Add(-keepEnded).UnixMilli(), t.opts.Now().Add(-keepSession).UnixMilli()
	err := t.opts.Store.Tidy(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(
			`DELETE FROM token WHERE (revoked_at > 0 AND revoked_at < $1) OR (expires_at > 0 AND expires_at < $2) OR (parent <> '' AND expires_at < $3)`,
			horizon, horizon, sessions)
		return err
	})
	if err != nil {
		return err
	}
	return t.read(ctx)
}

func (t *Tokens) read(ctx context.Context) error {
	rows, err := t.opts.Store.Read().QueryContext(ctx,
		`SELECT token_id, hash, principal, role, lane, created_at, created_by, expires_at, revoked_at, parent, opened, face,
			client, audience, tools FROM token`)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	for rows.Next() {
		var (
			rec                       Token
			hash                      []byte
			created, expires, revoked int64
		)
		if err := rows.Scan(&rec.ID, &hash, &rec.Principal, &rec.Role, &rec.Lane, &created, &rec.CreatedBy, &expires, &revoked, &rec.Parent,
			&rec.Opened, &rec.Face, &rec.Client, &rec.Audience, &rec.Tools); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		rec.CreatedAt, rec.ExpiresAt, rec.RevokedAt = fromMilli(created), fromMilli(expires), fromMilli(revoked)
		if len(hash) != sha256.Size {
			return capabilities.Errorf(capabilities.CodeInternal, "token %s has a damaged record", rec.ID)
		}
		t.putLocked([sha256.Size]byte(hash), &rec)
	}
	if err := rows.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return t.loadUsersLocked(ctx)
}

func (t *Tokens) putLocked(hash [sha256.Size]byte, rec *Token) {
	t.byHash[hash] = rec
	t.hashes[rec.ID] = hash
}

// Authenticate returns the identity a token stands for. Errors are
// CodeUnauthenticated. It does no I/O for a token that is known: it is on every request's path.
func (t *Tokens) Authenticate(token string) (Identity, error) {
	return t.authenticate(tokenPrefix, token)
}

// authenticate takes only what begins with prefix, so that a token never passes for
// a session nor the other way round: the prefix is part of what was hashed.
func (t *Tokens) authenticate(prefix, token string) (Identity, error) {
	if !strings.HasPrefix(token, prefix) || len(token) > 2*tokenBytes {
		return Identity{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "the token is not valid")
	}
	// A lookup by the hash leaks nothing useful through its timing: an attacker
	// cannot choose a token's hash prefix by prefix.
	hash := sha256.Sum256([]byte(token))
	t.mu.RLock()
	rec := t.byHash[hash]
	err := t.refusalLocked(rec)
	t.mu.RUnlock()
	if rec == nil && t.caughtUp() {
		t.mu.RLock()
		rec = t.byHash[hash]
		err = t.refusalLocked(rec)
		t.mu.RUnlock()
	}
	if err != nil {
		return Identity{}, err
	}
	who := rec.identity()
	who.authority = t.opts.Authority
	return who, nil
}

// caughtUp reads what other gateways wrote, and reports whether it did. Strangers, whose tokens
// nobody knows, have it read for a few of them at a time.
func (t *Tokens) caughtUp() bool {
	if t.opts.CatchUp == nil {
		return false
	}
	select {
	case t.catching <- struct{}{}:
		defer func() { <-t.catching }()
	default:
		return false
	}
	if err := t.opts.CatchUp(); err != nil {
		t.opts.Log.Warn("tokens.catch_up", "err", err)
		return false
	}
	return true
}

// refusalLocked says why a record lets nobody in; a session ends with the token that
// opened it.
func (t *Tokens) refusalLocked(rec *Token) error {
	if rec == nil {
		return capabilities.Errorf(capabilities.CodeUnauthenticated, "the token is not valid")
	}
	if err := rec.refusal(t.opts.Now()); err != nil || rec.Parent == "" {
		return err
	}
	return t.refusalLocked(t.byHash[t.hashes[rec.Parent]])
}

// Valid reports whether the token with that ID would still be let in. Surfaces
// ask it for streams that outlive the request they came with.
func (t *Tokens) Valid(tokenID string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.refusalLocked(t.byHash[t.hashes[tokenID]]) == nil
}

// Create makes a token for by, whose role must cover the new one's: nobody
// makes a token that may do more than its maker. The secret is given this once.
func (t *Tokens) Create(ctx context.Context, by Identity, spec Spec) (Token, Secret, error) {
	return t.create(ctx, by, spec, Token{}, nil)
}

// create makes a token of a spec that is the rest of like; with is written in the same transaction.
func (t *Tokens) create(ctx context.Context, by Identity, spec Spec, like Token, with func(*store.Tx, Token) error) (Token, Secret, error) {
	if err := by.Require(ActTokens); err != nil {
		return Token{}, Secret{}, err
	}
	if spec.Lane == "" {
		spec.Lane = capabilities.LaneID(spec.Principal)
	}
	if err := errors.Join(
		capabilities.ValidateName("principal", string(spec.Principal), 128),
		capabilities.ValidateName("lane", string(spec.Lane), 128),
	); err != nil {
		return Token{}, Secret{}, err
	}
	if _, err := ParseRole(string(spec.Role)); err != nil {
		return Token{}, Secret{}, err
	}
	var err error
	if spec.Face, err = ParseFace(string(spec.Face)); err != nil {
		return Token{}, Secret{}, err
	}
	if !by.Role.Covers(spec.Role) {
		return Token{}, Secret{}, capabilities.Errorf(capabilities.CodeForbidden, "a token of role %s cannot make one of role %s", by.Role,
			spec.Role)
	}
	if spec.TTL < 0 || spec.TTL > maxTTL {
		return Token{}, Secret{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "a token may live for up to ten years")
	}
	now := t.opts.Now()
	rec := Token{
		ID: "t" + strings.ToLower(rand.Text()[:15]), Principal: spec.Principal, Role: spec.Role, Lane: spec.Lane,
		CreatedAt: now.Truncate(time.Millisecond).UTC(), CreatedBy: by.Principal, Face: spec.Face,
		Client: like.Client, Audience: like.Audience, Tools: like.Tools,
	}
	if spec.TTL > 0 {
		rec.ExpiresAt = now.Add(spec.TTL).Truncate(time.Millisecond).UTC()
	}
	secret := newSecret(tokenPrefix)
	var besides func(*store.Tx) error
	if with != nil {
		besides = func(tx *store.Tx) error { return with(tx, rec) }
	}
	if err := t.keep(ctx, "token.created", rec, secret, besides, nil); err != nil {
		return Token{}, Secret{}, err
	}
	t.opts.Log.Info("token.created", "token_id", rec.ID, "principal", rec.Principal, "role", rec.Role, "by", by.Principal)
	return rec, secret, nil
}

// keep makes a new record durable, with its packet and what goes with it, and then
// valid.
func (t *Tokens) keep(ctx context.Context, kind string, rec Token, secret Secret, with func(*store.Tx) error, andLocked func()) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.RLock()
	full := len(t.hashes) >= maxTokens
	t.mu.RUnlock()
	if full {
		return capabilities.Errorf(capabilities.CodeOverloaded, "there are %d tokens already", maxTokens).
			WithHint("Revoke some; ended ones leave the list after 90 days.")
	}
	hash := sha256.Sum256([]byte(secret.text))
	write := t.opts.Store.Write
	if rec.Parent != "" { // who answers or stops signs in first, on a full disk, too
		write = t.opts.Store.WriteTerminal
	}
	err := write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(
			`INSERT INTO token (token_id, hash, principal, role, lane, created_at, created_by, expires_at, revoked_at, parent, opened, face,
				client, audience, tools)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9, $10, $11, $12, $13, $14)`,
			rec.ID, hash[:], string(rec.Principal), string(rec.Role), string(rec.Lane),
			rec.CreatedAt.UnixMilli(), string(rec.CreatedBy), milli(rec.ExpiresAt), rec.Parent, rec.Opened, string(rec.Face), rec.Client,
			rec.Audience, rec.Tools); err != nil {
			return err
		}
		if with != nil {
			if err := with(tx); err != nil {
				return err
			}
		}
		return t.record(tx, kind, rec.CreatedBy, rec)
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.putLocked(hash, &rec)
	if andLocked != nil {
		andLocked()
	}
	t.mu.Unlock()
	return nil
}

// Revoke ends a token at once and for good. Revoking an ended token is not an error.
func (t *Tokens) Revoke(ctx context.Context, by Identity, tokenID string) (Token, error) {
	if err := by.Require(ActTokens); err != nil {
		return Token{}, err
	}
	return t.revoke(ctx, by, tokenID)
}

func (t *Tokens) revoke(ctx context.Context, by Identity, tokenID string) (Token, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.RLock()
	hash, ok := t.hashes[tokenID]
	old := t.byHash[hash]
	t.mu.RUnlock()
	if !ok {
		return Token{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no token with that ID")
	}
	if !old.RevokedAt.IsZero() {
		return *old, nil
	}
	rec := *old
	rec.RevokedAt = t.opts.Now().Truncate(time.Millisecond).UTC()
	// A full disk must not keep a token alive: this may use the reserve.
	err := t.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`UPDATE token SET revoked_at = $1 WHERE token_id = $2 AND revoked_at = 0`, rec.RevokedAt.UnixMilli(),
			rec.ID); err != nil {
			return err
		}
		return t.record(tx, "token.revoked", by.Principal, rec)
	})
	if err != nil {
		return Token{}, err
	}
	t.mu.Lock()
	ended := []string{rec.ID}
	for _, below := range t.byHash { // what runs for a session ends with what opened it, too
		if below.Parent == rec.ID && t.refusalLocked(below) == nil {
			ended = append(ended, below.ID)
		}
	}
	t.putLocked(hash, &rec)
	watchers := make([]func(string), 0, len(t.watchers))
	for _, fn := range t.watchers {
		watchers = append(watchers, fn)
	}
	t.mu.Unlock()
	for _, fn := range watchers {
		for _, id := range ended {
			fn(id)
		}
	}
	t.opts.Log.Info("token.revoked", "token_id", rec.ID, "principal", rec.Principal, "by", by.Principal)
	return rec, nil
}

func (t *Tokens) record(tx *store.Tx, kind string, by capabilities.PrincipalID, rec Token) error {
	return t.recordBody(tx, kind, by, rec.body())
}

func (t *Tokens) recordBody(tx *store.Tx, kind string, by capabilities.PrincipalID, body packet.Token) error {
	if t.opts.Record == nil {
		return nil
	}
	return t.opts.Record(tx, kind, by, body)
}

// body is the token as the ledger has it.
func (t *Token) body() packet.Token {
	return packet.Token{
		ID: t.ID, Principal: t.Principal, Role: t.Role.String(), Lane: t.Lane, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
		ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt, Parent: t.Parent, Opened: t.Opened, Client: t.Client, Audience: t.Audience,
		Tools: t.Tools,
	}
}

// List returns every kept record, oldest first.
func (t *Tokens) List() []Token {
	t.mu.RLock()
	list := make([]Token, 0, len(t.byHash))
	for _, rec := range t.byHash {
		list = append(list, *rec)
	}
	t.mu.RUnlock()
	sort.Slice(list, func(i, j int) bool {
		if c := list[i].CreatedAt.Compare(list[j].CreatedAt); c != 0 {
			return c < 0
		}
		return list[i].ID < list[j].ID
	})
	return list
}

// Gone reports whether there were tokens of that principal and none of them is good any
// more. Of somebody who never had one nothing is known.
func (t *Tokens) Gone(who capabilities.PrincipalID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	known := false
	for _, rec := range t.byHash {
		if rec.Principal != who {
			continue
		}
		if known = true; t.refusalLocked(rec) == nil {
			return false
		}
	}
	return known
}

// OnRevoke has fn called after each revocation, from the revoking goroutine, with the
// token and with each session that ended with it; fn must not block. cancel ends it.
func (t *Tokens) OnRevoke(fn func(tokenID string)) (cancel func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextID++
	id := t.nextID
	t.watchers[id] = fn
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watchers, id)
	}
}

func milli(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

func fromMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
