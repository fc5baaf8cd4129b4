package principal_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Another role is in force at once and after a restart, is recorded, and ends what may do more.
func TestSetRole(t *testing.T) {
	var recorded []string
	o := principal.Options{
		Store: open(t, filepath.Join(t.TempDir(), "store.db")),
		Record: func(_ *store.Tx, kind string, by capabilities.PrincipalID, body any) error {
			about := body.(packet.Token)
			recorded = append(recorded, kind+" by "+string(by)+": "+about.Before+" to "+about.Role)
			return nil
		},
	}
	set := principal.Cheap(tokens(t, o))
	_, secret, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "root", Role: principal.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	root, err := set.Authenticate(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.AddUser(t.Context(), root, "ann", principal.RoleAdmin, password(t, phrase)); err != nil {
		t.Fatal(err)
	}
	session := func() principal.Identity {
		t.Helper()
		_, cookie, err := set.SignIn(t.Context(), "ann", principal.TypedPassword(phrase))
		if err != nil {
			t.Fatal(err)
		}
		ann, err := set.Session(cookie.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		return ann
	}
	token := func(role principal.Role) string {
		t.Helper()
		rec, _, err := set.Create(t.Context(), root, principal.Spec{Principal: "ann", Role: role})
		if err != nil {
			t.Fatal(err)
		}
		return rec.ID
	}
	ann := session()
	admin, agent := token(principal.RoleAdmin), token(principal.RoleAgent)
	link, _, err := set.Welcome(t.Context(), root, "ann")
	if err != nil {
		t.Fatal(err)
	}
	weak, _, err := set.Login(ann, principal.RoleViewer)
	if err != nil {
		t.Fatal(err)
	}
	_, cookie, err := set.Redeem(t.Context(), weak.Reveal())
	if err != nil {
		t.Fatal(err)
	}

	for about, c := range map[string]struct {
		by   principal.Identity
		who  capabilities.PrincipalID
		role principal.Role
		code capabilities.Code
	}{
		"oneself":      {ann, "ann", principal.RoleViewer, capabilities.CodeForbidden},
		"by a viewer":  {principal.Identity{Principal: "eve", Role: principal.RoleViewer}, "ann", principal.RoleViewer, capabilities.CodeForbidden},
		"nobody":       {root, "bob", principal.RoleViewer, capabilities.CodeNotFound},
		"to an agent":  {root, "ann", principal.RoleAgent, capabilities.CodeInvalidRequest},
		"to no role":   {root, "ann", "", capabilities.CodeInvalidRequest},
		"to some role": {root, "ann", "root", capabilities.CodeInvalidRequest},
	} {
		if u, err := set.SetRole(t.Context(), c.by, c.who, c.role); capabilities.CodeOf(err) != c.code {
			t.Errorf("%s: %+v, %v", about, u, err)
		}
	}

	u, err := set.SetRole(t.Context(), root, "ann", principal.RoleViewer)
	if err != nil || u.Role != principal.RoleViewer {
		t.Fatalf("%+v, %v", u, err)
	}
	if set.Valid(ann.TokenID) || set.Valid(admin) {
		t.Error("what may do more goes on")
	}
	if _, err := set.Session(cookie.Reveal()); err != nil {
		t.Errorf("a session of a viewer ended: %v", err)
	}
	if !set.Valid(agent) {
		t.Error("an agent's token ended, which may do no more")
	}
	if _, _, err := set.Redeem(t.Context(), link.Reveal()); err == nil {
		t.Error("a link for an admin lets a viewer in")
	}
	if again := session(); again.Role != principal.RoleViewer {
		t.Errorf("the next session is of role %s", again.Role)
	}
	if !slices.Contains(recorded, "user.role_changed by root: admin to viewer") {
		t.Errorf("recorded: %v", recorded)
	}
	set = principal.Cheap(tokens(t, o)) // a restart knows the same
	if u, err := set.User("ann"); err != nil || u.Role != principal.RoleViewer {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err := set.SetRole(t.Context(), root, "ann", principal.RoleOperator); err != nil || u.Role != principal.RoleOperator || session().Role != principal.RoleOperator {
		t.Errorf("%+v, %v", u, err)
	}
}
