package principal

import (
	"context"
	"crypto/rand"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A user is a principal with a way into the console of their own: a password, passkeys
// or both. Behind each stands a record among the tokens that nobody holds the secret
// of. The sessions that the user opens are its sessions, so that its role is theirs,
// and revoking it ends them.

const (
	maxUsers    = 1000
	maxPasskeys = 16 // of one user

	// FreshFor is how long after signing in a session may change ways to sign in.
	FreshFor = 10 * time.Minute
)

// Passkey is a key of a user's that an authenticator keeps.
type Passkey struct {
	ID    string // base64url of the credential's ID
	Name  string // by its user
	Place string // the name that the gateway was called by: it works there only
	Key   []byte // COSE
	Count uint32 // of the authenticator; 0: it counts not
	Sync  bool   // its authenticator may copy it to others

	CreatedAt time.Time
	UsedAt    time.Time
}

// User is what may be told of one.
type User struct {
	Principal capabilities.PrincipalID
	Role      Role
	TokenID   string // the record behind the user's sessions
	Password  bool   // there is one
	Passkeys  []Passkey
	CreatedAt time.Time
	Issuer    string // the OpenID provider where they sign in, and nowhere else; "": they do here
}

// user is one as it is kept in memory; replaced, never changed.
type user struct {
	User
	handle   string // random, 32 bytes: who an authenticator thinks it is for
	password string // PHC; "": none
	outside  string // who they are at their OpenID provider; "": they sign in here
}

func (u *user) view() User {
	v := u.User
	v.Password, v.Passkeys = u.password != "", slices.Clone(u.Passkeys)
	if v.Passkeys == nil {
		v.Passkeys = []Passkey{}
	}
	return v
}

const userTables = `
	CREATE TABLE user (
		principal  TEXT PRIMARY KEY,
		token_id   TEXT NOT NULL,
		handle     TEXT NOT NULL UNIQUE,
		password   TEXT NOT NULL,
		created_at INTEGER NOT NULL
	) STRICT;
	CREATE TABLE passkey (
		passkey    TEXT PRIMARY KEY,
		principal  TEXT NOT NULL,
		name       TEXT NOT NULL,
		place      TEXT NOT NULL,
		key        BLOB NOT NULL,
		count      INTEGER NOT NULL,
		synced     INTEGER NOT NULL,
		created_at INTEGER NOT NULL,
		used_at    INTEGER NOT NULL
	) STRICT`

// loadUsersLocked reads users and passkeys; the tokens are there already.
func (t *Tokens) loadUsersLocked(ctx context.Context) error {
	rows, err := t.opts.Store.Read().QueryContext(ctx, `SELECT principal, token_id, handle, password, created_at, outside FROM user`)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	for rows.Next() {
		var u user
		var created int64
		if err := rows.Scan(&u.Principal, &u.TokenID, &u.handle, &u.password, &created, &u.outside); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		rec := t.byHash[t.hashes[u.TokenID]]
		if rec == nil {
			continue // ended so long ago that it is forgotten
		}
		u.CreatedAt, u.Role, u.Issuer = fromMilli(created), rec.Role, issuerOf(u.outside)
		t.users[u.Principal] = &u
	}
	if err := rows.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	keys, err := t.opts.Store.Read().QueryContext(ctx,
		`SELECT passkey, principal, name, place, key, count, synced, created_at, used_at FROM passkey ORDER BY created_at, passkey`)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer keys.Close()
	for keys.Next() {
		var k Passkey
		var who capabilities.PrincipalID
		var created, used int64
		if err := keys.Scan(&k.ID, &who, &k.Name, &k.Place, &k.Key, &k.Count, &k.Sync, &created, &used); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		k.CreatedAt, k.UsedAt = fromMilli(created), fromMilli(used)
		if u := t.users[who]; u != nil {
			u.Passkeys = append(u.Passkeys, k)
		}
	}
	if err := keys.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return nil
}

// Users returns all users by name.
func (t *Tokens) Users() []User {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]User, 0, len(t.users))
	for _, u := range t.users {
		if t.refusalLocked(t.byHash[t.hashes[u.TokenID]]) == nil {
			list = append(list, u.view())
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Principal < list[j].Principal })
	return list
}

// User returns one; CodeNotFound.
func (t *Tokens) User(who capabilities.PrincipalID) (User, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	u, err := t.userLocked(who)
	if err != nil {
		return User{}, err
	}
	return u.view(), nil
}

func (t *Tokens) userLocked(who capabilities.PrincipalID) (*user, error) {
	u := t.users[who]
	if u == nil || t.refusalLocked(t.byHash[t.hashes[u.TokenID]]) != nil {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "there is no user %.128q", who).
			WithAction(capabilities.Action{Key: capabilities.ActionListUsers}, "Check its name.")
	}
	return u, nil
}

// AddUser makes a user who signs in with that password, or, with none, by the link that
// Welcome makes. Nobody makes one who may do more than its maker; CodeConflict if there is
// one of that name.
func (t *Tokens) AddUser(ctx context.Context, by Identity, who capabilities.PrincipalID, role Role, p Password) (User, error) {
	if err := by.Require(ActTokens); err != nil {
		return User{}, err
	}
	if err := capabilities.ValidateName("principal", string(who), 128); err != nil {
		return User{}, err
	}
	if !role.signsIn() {
		return User{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "role must be viewer, operator or admin")
	}
	if !by.Role.Covers(role) {
		return User{}, capabilities.Errorf(capabilities.CodeForbidden, "a token of role %s cannot make a user of role %s", by.Role, role)
	}
	hash, err := "", error(nil)
	if p != (Password{}) {
		if hash, err = t.hasher.hash(ctx, p); err != nil {
			return User{}, err
		}
	}
	u, err := t.makeUser(ctx, by.Principal, who, role, hash, "")
	if err != nil {
		return User{}, err
	}
	return u.view(), nil
}

// makeUser keeps a new user with the record behind it.
func (t *Tokens) makeUser(ctx context.Context, by, who capabilities.PrincipalID, role Role, password, outside string) (*user, error) {
	now := t.opts.Now().Truncate(time.Millisecond).UTC()
	rec := Token{
		ID: "u" + strings.ToLower(rand.Text()[:15]), Principal: who, Role: role, Lane: capabilities.LaneID(who), CreatedAt: now, CreatedBy: by,
	}
	u := &user{
		User:   User{Principal: who, Role: role, TokenID: rec.ID, CreatedAt: now, Issuer: issuerOf(outside)},
		handle: newSecret("").text, password: password, outside: outside,
	}
	t.mu.RLock()
	_, err := t.userLocked(who)
	full := len(t.users) >= maxUsers
	t.mu.RUnlock()
	switch {
	case err == nil:
		return nil, capabilities.Errorf(capabilities.CodeConflict, "there is a user %s already", who).
			WithAction(capabilities.Action{Key: capabilities.ActionSetPassword}, "Change the password, or remove the user first.")
	case full:
		return nil, capabilities.Errorf(capabilities.CodeOverloaded, "there are %d users already", maxUsers)
	}
	// An earlier user of that name is gone with their keys.
	err = t.keep(ctx, "user.added", rec, newSecret(tokenPrefix), func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM user WHERE principal = $1`, string(who)); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM passkey WHERE principal = $1`, string(who)); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO user (principal, token_id, handle, password, created_at, outside) VALUES ($1, $2, $3, $4, $5, $6)`,
			string(who), rec.ID, u.handle, u.password, now.UnixMilli(), u.outside)
		return err
	}, func() { t.users[who] = u })
	if err != nil {
		return nil, err
	}
	t.opts.Log.Info("user.added", "principal", who, "role", role, "by", by)
	return u, nil
}

// Removed is a user that was removed.
type Removed struct {
	User
	// Ended is how many API tokens of theirs ended with them.
	Ended int
	// Made are the tokens that they made for others and that go on: an admin's to look at.
	Made []string
}

// RemoveUser ends a user: no way in is left, no session, and no token that stands for
// them, whoever made it. A user who removes themselves keeps the token that they do it with.
func (t *Tokens) RemoveUser(ctx context.Context, by Identity, who capabilities.PrincipalID) (Removed, error) {
	u, err := t.User(who)
	if err != nil {
		return Removed{}, err
	}
	if _, err := t.Revoke(ctx, by, u.TokenID); err != nil {
		return Removed{}, err
	}
	gone := Removed{User: u}
	for _, rec := range t.List() {
		switch {
		case rec.Parent != "" || !t.Valid(rec.ID):
		case rec.Principal != who:
			if rec.CreatedBy == who {
				gone.Made = append(gone.Made, rec.ID)
			}
		case !t.carries(by, rec.ID):
			if _, err := t.revoke(ctx, by, rec.ID); err != nil {
				return gone, err
			}
			gone.Ended++
		}
	}
	return gone, nil
}

// carries reports whether by came with that token or with a session of it.
func (t *Tokens) carries(by Identity, token string) bool {
	rec, err := t.Get(by.TokenID)
	return err == nil && (rec.ID == token || rec.Parent == token)
}

// SetPassword returns a user another password, and ends the sessions that were opened
// before but by's own: an admin for anybody, everybody else for themselves from a
// session that is fresh.
func (t *Tokens) SetPassword(ctx context.Context, by Identity, who capabilities.PrincipalID, p Password) (User, error) {
	if err := by.Require(ActTokens); err != nil || by.Principal == who {
		if err := t.own(by, who); err != nil {
			return User{}, err
		}
	}
	if err := t.inside(who); err != nil {
		return User{}, err
	}
	hash, err := t.hasher.hash(ctx, p)
	if err != nil {
		return User{}, err
	}
	u, err := t.ensureUser(ctx, by, who)
	if err != nil {
		return User{}, err
	}
	err = t.change(ctx, u.Principal, "user.password_changed", by, func(u *user) { u.password = hash }, func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE user SET password = $1 WHERE principal = $2`, hash, string(who))
		return err
	})
	if err != nil {
		return User{}, err
	}
	if _, err := t.EndSessions(ctx, by, who, by.TokenID); err != nil {
		return User{}, err
	}
	return t.User(who)
}

// AddPasskey adds a key to the user who by is, from a session that is fresh.
func (t *Tokens) AddPasskey(ctx context.Context, by Identity, k Passkey) (Passkey, error) {
	if err := t.own(by, by.Principal); err != nil {
		return Passkey{}, err
	}
	if k.Name == "" || len(k.Name) > 64 || capabilities.Printable(k.Name) != k.Name {
		return Passkey{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "a passkey's name is 1 to 64 bytes of text on one line")
	}
	u, err := t.ensureUser(ctx, by, by.Principal)
	if err != nil {
		return Passkey{}, err
	}
	t.mu.RLock()
	_, _, taken := t.passkeyLocked(k.ID)
	n := len(t.users[u.Principal].Passkeys)
	t.mu.RUnlock()
	switch {
	case taken:
		return Passkey{}, capabilities.Errorf(capabilities.CodeConflict, "this passkey is registered already")
	case n >= maxPasskeys:
		return Passkey{}, capabilities.Errorf(capabilities.CodeOverloaded, "you have %d passkeys already", maxPasskeys).
			WithHint("Remove one first.")
	}
	k.CreatedAt = t.opts.Now().Truncate(time.Millisecond).UTC()
	err = t.change(ctx, u.Principal, "user.passkey_added", by, func(u *user) {
		u.Passkeys = append(slices.Clone(u.Passkeys), k)
	}, func(tx *store.Tx) error {
		_, err := tx.Exec(
			`INSERT INTO passkey (passkey, principal, name, place, key, count, synced, created_at, used_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0)`,
			k.ID, string(u.Principal), k.Name, k.Place, k.Key, int64(k.Count), k.Sync, k.CreatedAt.UnixMilli())
		return err
	})
	return k, err
}

// RemovePasskey takes a key from the user who by is; an admin takes anybody's.
func (t *Tokens) RemovePasskey(ctx context.Context, by Identity, id string) error {
	t.mu.RLock()
	u, _, known := t.passkeyLocked(id)
	t.mu.RUnlock()
	if !known || u.Principal != by.Principal && by.Require(ActTokens) != nil {
		return capabilities.Errorf(capabilities.CodeNotFound, "there is no such passkey")
	}
	return t.change(ctx, u.Principal, "user.passkey_removed", by, func(u *user) {
		u.Passkeys = slices.DeleteFunc(slices.Clone(u.Passkeys), func(k Passkey) bool { return k.ID == id })
	}, func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM passkey WHERE passkey = $1`, id)
		return err
	})
}

// passkeyLocked finds a key and whose it is.
func (t *Tokens) passkeyLocked(id string) (*user, Passkey, bool) {
	for _, u := range t.users {
		for _, k := range u.Passkeys {
			if k.ID == id {
				_, err := t.userLocked(u.Principal)
				return u, k, err == nil
			}
		}
	}
	return nil, Passkey{}, false
}

// Passkey returns a key, its user and the handle under which authenticators know that
// user; CodeUnauthenticated if there is none.
func (t *Tokens) Passkey(id string) (User, Passkey, string, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	u, k, known := t.passkeyLocked(id)
	if !known {
		return User{}, Passkey{}, "", capabilities.Errorf(capabilities.CodeUnauthenticated, "this passkey is not known here").
			WithHint("Sign in another way, and register it anew.")
	}
	return u.view(), k, u.handle, nil
}

// SomePasskey reports whether any user has a passkey for that place.
func (t *Tokens) SomePasskey(place string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for who, u := range t.users {
		if _, err := t.userLocked(who); err == nil && slices.ContainsFunc(u.Passkeys, func(k Passkey) bool { return k.Place == place }) {
			return true
		}
	}
	return false
}

// Handle is under what authenticators know the user who by is; the user is made if
// there is none. Only a session that is fresh gets it.
func (t *Tokens) Handle(ctx context.Context, by Identity) (string, error) {
	if err := t.own(by, by.Principal); err != nil {
		return "", err
	}
	u, err := t.ensureUser(ctx, by, by.Principal)
	if err != nil {
		return "", err
	}
	return u.handle, nil
}

// UsedPasskey notes that a key answered with that count. A count that did not grow is
// a copy's: CodeUnauthenticated (WebAuthn level 3, section 6.1.1).
func (t *Tokens) UsedPasskey(ctx context.Context, id string, count uint32) error {
	now := t.opts.Now().Truncate(time.Millisecond).UTC()
	t.mu.RLock()
	u, _, known := t.passkeyLocked(id)
	t.mu.RUnlock()
	if !known {
		return capabilities.Errorf(capabilities.CodeUnauthenticated, "this passkey is not known here")
	}
	copied := false
	err := t.change(ctx, u.Principal, "", Identity{Principal: u.Principal}, func(u *user) {
		u.Passkeys = slices.Clone(u.Passkeys)
		for i := range u.Passkeys {
			if k := &u.Passkeys[i]; k.ID == id {
				copied = (count != 0 || k.Count != 0) && count <= k.Count
				k.Count, k.UsedAt = max(count, k.Count), now
			}
		}
	}, func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE passkey SET count = max(count, $1), used_at = $2 WHERE passkey = $3`, int64(count), now.UnixMilli(), id)
		return err
	})
	if err == nil && copied {
		t.opts.Log.Error("user.passkey_copied", "principal", u.Principal, "passkey", id)
		return capabilities.Errorf(capabilities.CodeUnauthenticated, "this passkey seems to be a copy: its counter went back").
			WithHint("Sign in another way, remove the passkey, and register a new one.")
	}
	return err
}

// change makes a change of a user durable, with its packet, and then valid.
func (t *Tokens) change(ctx context.Context, who capabilities.PrincipalID, kind string, by Identity, apply func(*user),
	write func(*store.Tx) error) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.RLock()
	old, err := t.userLocked(who)
	var rec Token
	if err == nil {
		rec = *t.byHash[t.hashes[old.TokenID]]
	}
	t.mu.RUnlock()
	if err != nil {
		return err
	}
	err = t.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if err := write(tx); err != nil || kind == "" {
			return err
		}
		return t.record(tx, kind, by.Principal, rec)
	})
	if err != nil {
		return err
	}
	fresh := *old
	apply(&fresh)
	t.mu.Lock()
	t.users[who] = &fresh
	t.mu.Unlock()
	if kind != "" {
		t.opts.Log.Info(kind, "principal", who, "by", by.Principal)
	}
	return nil
}

// own refuses who may not change that user's ways to sign in: somebody else, a token,
// a session that is not fresh, and one of a smaller role than the user's.
func (t *Tokens) own(by Identity, who capabilities.PrincipalID) error {
	if err := t.fresh(by); err != nil {
		return err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	u, err := t.userLocked(who)
	if by.Principal != who || err == nil && !by.Role.Covers(u.Role) {
		return capabilities.Errorf(capabilities.CodeForbidden, "a session of role %s cannot change how that user signs in", by.Role)
	}
	return nil
}

// fresh refuses who did not sign in a short while ago.
func (t *Tokens) fresh(by Identity) error {
	rec, err := t.Get(by.TokenID)
	if err != nil {
		return err
	}
	if rec.Parent == "" {
		return capabilities.Errorf(capabilities.CodeForbidden, "a token signs nobody in").
			WithAction(capabilities.Action{Key: capabilities.ActionManageUsers}, "Do it in the console, or have an admin do it.")
	}
	if t.opts.Now().Sub(rec.CreatedAt) > FreshFor {
		return capabilities.Errorf(capabilities.CodeForbidden, "you signed in more than %d minutes ago", int(FreshFor.Minutes())).
			WithHint("Sign out, sign in again and repeat it, so that nobody does it who only found the page open.")
	}
	return nil
}

// ensureUser returns the user, made with the role of by's session if by is who and has
// none yet.
func (t *Tokens) ensureUser(ctx context.Context, by Identity, who capabilities.PrincipalID) (*user, error) {
	t.mu.RLock()
	u, err := t.userLocked(who)
	t.mu.RUnlock()
	if err == nil || by.Principal != who {
		return u, err
	}
	return t.makeUser(ctx, who, who, by.Role, "", "")
}
