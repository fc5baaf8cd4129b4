package principal

import "github.com/handrail-dev/handrail/capabilities"

// By what a session was opened.
const (
	byLink     = "link"
	byPassword = "password"
	byPasskey  = "passkey"
	byOIDC     = "oidc" // at an OpenID provider
)

// Present says by what it is known that the person who by is acts in the console now:
// they signed in within FreshFor, by link, password or passkey. CodeForbidden otherwise: of
// a token, whoever holds it; of a session that is older; of one that was opened at an OpenID
// provider, which may not have asked anybody; of one that was opened by the link
// of a token, which proves that token and nobody's presence, unless that is the token which
// the gateway made for its own machine.
func (t *Tokens) Present(by Identity) (string, error) {
	if err := t.InConsole(by); err != nil {
		return "", err
	}
	if err := t.fresh(by); err != nil {
		return "", err
	}
	rec, err := t.Get(by.TokenID)
	if err != nil {
		return "", err
	}
	if rec.Opened == byPassword || rec.Opened == byPasskey {
		return rec.Opened, nil
	}
	if rec.Opened == byOIDC { // without a question, where the browser is signed in there
		return "", capabilities.Errorf(capabilities.CodeForbidden, "your provider says who you are, and not that you were there just now").
			WithHint("Confirm with a passkey.")
	}
	if above, err := t.Get(rec.Parent); err != nil || rec.Opened != byLink || above.Role != RoleAdmin || above.CreatedBy != Site.Principal {
		return "", capabilities.Errorf(capabilities.CodeForbidden, "the link that you signed in by shows that somebody has a token, and not who").
			WithAction(capabilities.Action{Key: capabilities.ActionSignIn}, "Sign in with a passkey or your password, or confirm with a passkey. "+
				"A link that the gateway's own admin made on its machine counts, too.")
	}
	return rec.Opened, nil
}

// InConsole returns CodeForbidden unless by came with a session of the console.
func (t *Tokens) InConsole(by Identity) error {
	rec, err := t.Get(by.TokenID)
	if err == nil && rec.Parent == "" {
		err = capabilities.Errorf(capabilities.CodeForbidden, "a token is not a person").
			WithAction(capabilities.Action{Key: capabilities.ActionSignIn}, "Do it in the console.")
	}
	return err
}

// Person returns CodeInvalidRequest unless somebody who may answer for themselves signs in or
// calls under that name.
func (t *Tokens) Person(who capabilities.PrincipalID) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, rec := range t.byHash {
		if rec.Principal == who && t.Is(who, rec.Role).May(ActApprove) && t.refusalLocked(rec) == nil {
			return nil
		}
	}
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "there is nobody called %.128q who may answer questions", who).
		WithAction(capabilities.Action{Key: capabilities.ActionListPrincipals}, "An owner is a user or a token of role operator or admin.")
}
