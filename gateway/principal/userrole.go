package principal

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// SetRole changes the role of a user. Sessions of theirs, tokens under their name and one-time
// codes for them that may do more than the new role end at once; what may do less stays as it
// is. Nobody changes their own role, nor makes or changes a user who may do more than they do.
func (t *Tokens) SetRole(ctx context.Context, by Identity, who capabilities.PrincipalID, role Role) (User, error) {
	if err := by.Require(ActTokens); err != nil {
		return User{}, err
	}
	if !role.signsIn() {
		return User{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "role must be viewer, operator or admin")
	}
	if by.Principal == who {
		return User{}, capabilities.Errorf(capabilities.CodeForbidden, "nobody changes their own role").WithHint("Let another admin do it.")
	}
	if err := t.writeRole(ctx, by, who, role); err != nil {
		return User{}, err
	}
	t.mu.Lock()
	t.dropCodesLocked(func(l login) bool { return l.who == who && (l.welcome || l.role.rank() > role.rank()) })
	t.mu.Unlock()
	for _, rec := range t.List() {
		if rec.Principal != who || rec.Role.rank() <= role.rank() || !t.Valid(rec.ID) {
			continue
		}
		if _, err := t.revoke(ctx, by, rec.ID); err != nil {
			return User{}, err
		}
	}
	return t.User(who)
}

// writeRole makes the role durable, with its packet, and then valid.
func (t *Tokens) writeRole(ctx context.Context, by Identity, who capabilities.PrincipalID, role Role) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.RLock()
	old, err := t.userLocked(who)
	var rec Token
	if err == nil {
		rec = *t.byHash[t.hashes[old.TokenID]]
	}
	t.mu.RUnlock()
	switch {
	case err != nil:
		return err
	case !by.Role.Covers(role) || !by.Role.Covers(old.Role):
		return capabilities.Errorf(capabilities.CodeForbidden, "a token of role %s cannot make a %s of a user of role %s", by.Role, role,
			old.Role)
	case old.Role == role:
		return nil
	}
	rec.Role = role
	err = t.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`UPDATE token SET role = $1 WHERE token_id = $2`, string(role), rec.ID); err != nil {
			return err
		}
		body := rec.body()
		body.Before = old.Role.String()
		return t.recordBody(tx, "user.role_changed", by.Principal, body)
	})
	if err != nil {
		return err
	}
	fresh := *old
	fresh.Role = role
	t.mu.Lock()
	t.putLocked(t.hashes[rec.ID], &rec)
	t.users[who] = &fresh
	t.mu.Unlock()
	t.opts.Log.Info("user.role_changed", "principal", who, "role", role, "before", old.Role, "by", by.Principal)
	return nil
}
