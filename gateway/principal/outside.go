package principal

import (
	"context"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// A person from outside is one whom an OpenID provider vouches for. They are a user here from their
// first sign-in on, and sign in there and nowhere else: who is put out there is out here.

// Outside is a person as their provider vouches for them.
type Outside struct {
	Issuer, Subject string // the provider, and who they are there, for good
	// Name is by what they are known here from their first sign-in on. Later ones change it not.
	Name capabilities.PrincipalID
	Role Role // by their groups; empty: none of them may come in
}

func (o *Outside) key() string { return o.Issuer + "\n" + o.Subject }

// issuerOf returns the issuer of a key; "" of none.
func issuerOf(key string) string {
	issuer, _, _ := strings.Cut(key, "\n")
	return issuer
}

// SignInOutside opens a session for a person whose provider vouched for them just now. It is the
// groups' word at each sign-in what they may do: a role that changed is changed here, and a person
// with none is removed, with all that stands for them. Errors: CodeForbidden for these;
// CodeConflict if the name is somebody else's.
func (t *Tokens) SignInOutside(ctx context.Context, o Outside) (Token, Secret, error) {
	t.entering.Lock()
	defer t.entering.Unlock()
	t.mu.RLock()
	u := t.outsideLocked(o.key())
	t.mu.RUnlock()
	if o.Role == "" {
		if u != nil {
			if _, err := t.RemoveUser(ctx, Site, u.Principal); err != nil {
				return Token{}, Secret{}, err
			}
		}
		return Token{}, Secret{}, capabilities.Errorf(capabilities.CodeForbidden, "none of your groups may come in here").
			WithHint("Ask whoever runs this gateway which groups may.")
	}
	if !o.Role.signsIn() || o.Issuer == "" || o.Subject == "" {
		return Token{}, Secret{}, capabilities.Errorf(capabilities.CodeInternal, "a person from outside has an issuer, a subject and a role")
	}
	switch {
	case u == nil:
		made, err := t.addOutside(ctx, &o)
		if err != nil {
			return Token{}, Secret{}, err
		}
		u = made
	case u.Role != o.Role:
		if _, err := t.SetRole(ctx, Site, u.Principal, o.Role); err != nil {
			return Token{}, Secret{}, err
		}
	}
	return t.openSession(ctx, u.TokenID, u.Principal, o.Role, capabilities.LaneID(u.Principal), byOIDC)
}

// addOutside makes the user. Nobody gets a name that stands for somebody here: it may be chosen
// freely at the provider.
func (t *Tokens) addOutside(ctx context.Context, o *Outside) (*user, error) {
	if err := capabilities.ValidateName("your name", string(o.Name), 128); err != nil {
		return nil, err
	}
	t.mu.RLock()
	taken := o.Name == Site.Principal
	for _, rec := range t.byHash {
		taken = taken || rec.Principal == o.Name && t.refusalLocked(rec) == nil
	}
	t.mu.RUnlock()
	if taken {
		return nil, capabilities.Errorf(capabilities.CodeConflict, "the name %s is somebody else's here", o.Name).
			WithAction(capabilities.Action{Key: capabilities.ActionManageUsers}, "Have an admin remove whoever has it, or choose another claim.")
	}
	return t.makeUser(ctx, Site.Principal, o.Name, o.Role, "", o.key())
}

func (t *Tokens) outsideLocked(key string) *user {
	for who, u := range t.users {
		if u.outside == key {
			if _, err := t.userLocked(who); err == nil {
				return u
			}
		}
	}
	return nil
}

// inside refuses ways to sign in for a user who signs in at a provider.
func (t *Tokens) inside(who capabilities.PrincipalID) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if u, err := t.userLocked(who); err == nil && u.outside != "" {
		return capabilities.Errorf(capabilities.CodeForbidden, "%s signs in at an OpenID provider, and in no other way", who)
	}
	return nil
}
