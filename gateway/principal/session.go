package principal

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sort"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A session of the console is a token of its own that only a cookie carries. It
// stands for the principal of the token that opened it, for as long as that one is
// good, is listed and revoked like any other, and opens nothing but the console.

const (
	sessionPrefix = "hrs_"
	loginPrefix   = "hrl_"

	// LoginLife is how long a one-time code waits to be used.
	LoginLife = 5 * time.Minute
	// SessionLife is how long a session lasts when nobody extends it; SessionMost is
	// how long at most.
	SessionLife = 12 * time.Hour
	SessionMost = 7 * 24 * time.Hour

	// WelcomeLife is how long the link waits by which an admin lets a user sign in.
	WelcomeLife = 24 * time.Hour

	maxLogins   = 64
	keepSession = 24 * time.Hour // an ended one stays listed
)

// login is a one-time code that was given out.
type login struct {
	maker   string // whose end voids it: a token's ID
	parent  string // the record below which the session opens
	who     capabilities.PrincipalID
	role    Role
	lane    capabilities.LaneID
	welcome bool // it was made for a user by somebody else
	expires time.Time
}

// Login makes a one-time code with which somebody who holds by's token opens a
// session of the console. Role is at most by's own; empty is the same. The code is
// good once and for LoginLife; a restart of the gateway forgets it.
func (t *Tokens) Login(by Identity, role Role) (code Secret, expires time.Time, err error) {
	if err := by.Require(ActSession); err != nil {
		return Secret{}, time.Time{}, err
	}
	if role == "" {
		role = by.Role
	}
	if !by.Role.Covers(role) || !t.Is(by.Principal, role).May(ActSession) {
		return Secret{}, time.Time{}, capabilities.Errorf(capabilities.CodeForbidden, "a token of role %s cannot open a session of role %.32q",
			by.Role, role)
	}
	now := t.opts.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	rec := t.byHash[t.hashes[by.TokenID]]
	if err := t.refusalLocked(rec); err != nil {
		return Secret{}, time.Time{}, err
	}
	parent := rec.ID
	if rec.Parent != "" { // a session opens another beside itself, not below
		parent = rec.Parent
	}
	waiting := 0
	for hash, l := range t.logins {
		if !now.Before(l.expires) {
			delete(t.logins, hash)
		} else if !l.welcome {
			waiting++
		}
	}
	if waiting >= maxLogins {
		return Secret{}, time.Time{}, capabilities.Errorf(capabilities.CodeOverloaded, "%d login codes wait to be used", maxLogins).
			WithHint("Use one of them, or wait five minutes.")
	}
	code = newSecret(loginPrefix)
	expires = now.Add(LoginLife).Truncate(time.Millisecond).UTC()
	t.logins[sha256.Sum256([]byte(code.text))] = login{
		maker: by.TokenID, parent: parent, who: by.Principal, role: role, lane: by.Lane, expires: expires,
	}
	return code, expires, nil
}

// Welcome makes a one-time code with which a user opens a session as themselves: their
// first way in, or one in place of what they lost. It is good once and for WelcomeLife, ends
// with the token of whoever made it, and replaces an earlier one; a restart of the gateway
// forgets it. Nobody makes one for a user who may do more than they do. That it was made is
// recorded.
func (t *Tokens) Welcome(ctx context.Context, by Identity, who capabilities.PrincipalID) (code Secret, expires time.Time, err error) {
	if err := by.Require(ActTokens); err != nil {
		return Secret{}, time.Time{}, err
	}
	u, err := t.User(who)
	if err != nil {
		return Secret{}, time.Time{}, err
	}
	if err := t.inside(who); err != nil {
		return Secret{}, time.Time{}, err
	}
	if !by.Role.Covers(u.Role) {
		return Secret{}, time.Time{}, capabilities.Errorf(capabilities.CodeForbidden, "a token of role %s cannot let a user of role %s in",
			by.Role, u.Role)
	}
	if err := t.change(ctx, who, "user.welcomed", by, func(*user) {}, func(*store.Tx) error { return nil }); err != nil {
		return Secret{}, time.Time{}, err
	}
	code = newSecret(loginPrefix)
	expires = t.opts.Now().Add(WelcomeLife).Truncate(time.Millisecond).UTC()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropCodesLocked(func(l login) bool { return l.welcome && l.who == who })
	t.logins[sha256.Sum256([]byte(code.text))] = login{
		maker: by.TokenID, parent: u.TokenID, who: who, role: u.Role, lane: capabilities.LaneID(who), welcome: true, expires: expires,
	}
	return code, expires, nil
}

// dropCodesLocked voids the one-time codes that wait to be used and that are such.
func (t *Tokens) dropCodesLocked(such func(login) bool) {
	for hash, l := range t.logins {
		if such(l) {
			delete(t.logins, hash)
		}
	}
}

// Redeem opens the session of a one-time code and returns what its cookie holds. Every failure is
// the same CodeUnauthenticated: a stranger learns nothing of codes.
func (t *Tokens) Redeem(ctx context.Context, code string) (Token, Secret, error) {
	refused := capabilities.Errorf(capabilities.CodeUnauthenticated, "the login link was used, is too old, or is not complete").
		WithAction(capabilities.Action{Key: capabilities.ActionSignIn}, "Make a new one, or ask whoever invited you for another.")
	if !strings.HasPrefix(code, loginPrefix) || len(code) > 2*tokenBytes {
		return Token{}, Secret{}, refused
	}
	now, hash := t.opts.Now(), sha256.Sum256([]byte(code))
	t.mu.Lock()
	l, known := t.logins[hash]
	delete(t.logins, hash) // whatever becomes of it now, it was used
	stale := t.refusalLocked(t.byHash[t.hashes[l.parent]]) != nil || t.refusalLocked(t.byHash[t.hashes[l.maker]]) != nil
	t.mu.Unlock()
	if !known || stale || !now.Before(l.expires) {
		return Token{}, Secret{}, refused
	}
	return t.openSession(ctx, l.parent, l.who, l.role, l.lane, byLink)
}

// openSession opens a session below the record parent. How is by what means.
func (t *Tokens) openSession(ctx context.Context, parent string, who capabilities.PrincipalID, role Role, lane capabilities.LaneID,
	how string) (Token, Secret, error) {
	above, err := t.Get(parent)
	if err != nil {
		return Token{}, Secret{}, err
	}
	now := t.opts.Now()
	rec := Token{
		ID: "s" + strings.ToLower(rand.Text()[:15]), Principal: who, Role: role, Lane: lane, Parent: parent, Opened: how,
		CreatedAt: now.Truncate(time.Millisecond).UTC(), CreatedBy: who,
		ExpiresAt: earlier(now.Add(SessionLife), above.ExpiresAt).Truncate(time.Millisecond).UTC(),
	}
	secret := newSecret(sessionPrefix)
	if err := t.keep(ctx, "token.session_opened", rec, secret, nil, nil); err != nil {
		return Token{}, Secret{}, err
	}
	t.opts.Log.Info("session.opened", "token_id", rec.ID, "principal", rec.Principal, "role", rec.Role, "by", how)
	return rec, secret, nil
}

// Session returns the identity that a session's cookie stands for. Errors are
// CodeUnauthenticated. It does no I/O.
func (t *Tokens) Session(cookie string) (Identity, error) {
	return t.authenticate(sessionPrefix, cookie)
}

// Get returns the record of a token or session; CodeNotFound.
func (t *Tokens) Get(tokenID string) (Token, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if rec := t.byHash[t.hashes[tokenID]]; rec != nil {
		return *rec, nil
	}
	return Token{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no token with that ID")
}

// EndSession ends the session that who came with.
func (t *Tokens) EndSession(ctx context.Context, who Identity) error {
	rec, err := t.Get(who.TokenID)
	if err != nil {
		return err
	}
	if rec.Parent == "" {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "this is a token and no session of the console")
	}
	_, err = t.revoke(ctx, who, rec.ID)
	return err
}

// Sessions returns the sessions of a principal that are open, newest first.
func (t *Tokens) Sessions(who capabilities.PrincipalID) []Token {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := []Token{}
	for _, rec := range t.byHash {
		if rec.Principal == who && rec.Parent != "" && t.refusalLocked(rec) == nil {
			list = append(list, *rec)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		return cmp.Or(list[j].CreatedAt.Compare(list[i].CreatedAt), cmp.Compare(list[i].ID, list[j].ID)) < 0
	})
	return list
}

// EndSessions ends the open sessions of a principal but the one named, and returns how many:
// everybody their own, an admin anybody's. No one-time code lets them in any more that was made
// before.
func (t *Tokens) EndSessions(ctx context.Context, by Identity, who capabilities.PrincipalID, but string) (int, error) {
	if by.Principal != who {
		if err := by.Require(ActTokens); err != nil {
			return 0, err
		}
	}
	t.mu.Lock()
	t.dropCodesLocked(func(l login) bool { return l.who == who })
	t.mu.Unlock()
	n := 0
	for _, rec := range t.Sessions(who) {
		if rec.ID == but {
			continue
		}
		if _, err := t.revoke(ctx, by, rec.ID); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// EndOwnSession ends one of the sessions of the principal who by is; CodeNotFound.
func (t *Tokens) EndOwnSession(ctx context.Context, by Identity, id string) (Token, error) {
	rec, err := t.Get(id)
	if err != nil || rec.Principal != by.Principal || rec.Parent == "" {
		return Token{}, capabilities.Errorf(capabilities.CodeNotFound, "you have no session with that ID")
	}
	return t.revoke(ctx, by, rec.ID)
}

// ExtendSession has the session that who came with last for SessionLife from now, but
// not longer than SessionMost in all nor than the token that opened it.
func (t *Tokens) ExtendSession(ctx context.Context, who Identity) (Token, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.RLock()
	hash := t.hashes[who.TokenID]
	old := t.byHash[hash]
	err := t.refusalLocked(old)
	var parent *Token
	if err == nil {
		parent = t.byHash[t.hashes[old.Parent]]
	}
	t.mu.RUnlock()
	if err != nil {
		return Token{}, err
	}
	if parent == nil {
		return Token{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "this is a token and no session of the console")
	}
	if old.Opened == byOIDC {
		return Token{}, capabilities.Errorf(capabilities.CodeForbidden, "your provider has to vouch for you again").
			WithAction(capabilities.Action{Key: capabilities.ActionSignIn}, "Sign in again.")
	}
	rec := *old
	until := earlier(earlier(t.opts.Now().Add(SessionLife), old.CreatedAt.Add(SessionMost)), parent.ExpiresAt)
	if rec.ExpiresAt = until.Truncate(time.Millisecond).UTC(); !rec.ExpiresAt.After(old.ExpiresAt) {
		return *old, nil
	}
	err = t.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`UPDATE token SET expires_at = $1 WHERE token_id = $2 AND revoked_at = 0`, rec.ExpiresAt.UnixMilli(),
			rec.ID); err != nil {
			return err
		}
		return t.record(tx, "token.session_extended", who.Principal, rec)
	})
	if err != nil {
		return Token{}, err
	}
	t.mu.Lock()
	t.putLocked(hash, &rec)
	t.mu.Unlock()
	return rec, nil
}

// earlier returns the earlier of two times; a zero b is never.
func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
