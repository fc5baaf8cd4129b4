package principal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

const phrase = "correct horse battery staple"

func password(t *testing.T, text string) principal.Password {
	t.Helper()
	p, err := principal.NewPassword(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestUserLife(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "store.db"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := principal.Options{Store: db, Now: func() time.Time { return now }}
	set := tokens(t, o)
	if _, err := set.AddUser(t.Context(), principal.Site, "ann", principal.RoleOperator, password(t, phrase)); err != nil {
		t.Fatal(err)
	}
	if got := principal.PasswordRecord(set, "ann"); !strings.HasPrefix(got, "$argon2id$v=19$m=65536,t=3,p=4$") {
		t.Errorf("kept as %.40s", got)
	}
	principal.Cheap(set)
	if _, err := set.AddUser(t.Context(), principal.Site, "ann", principal.RoleViewer, password(t, phrase)); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("a second of the name: %v", err)
	}
	session, cookie, err := set.SignIn(t.Context(), "ann", principal.TypedPassword(phrase))
	if err != nil || session.Principal != "ann" || session.Role != principal.RoleOperator || session.Parent == "" {
		t.Fatalf("%+v %v", session, err)
	}
	for _, c := range [][2]string{{"ann", phrase + "x"}, {"ann", ""}, {"ann", strings.Repeat("x", 1000)}, {"bob", phrase}, {"", ""}, {"site", phrase}} {
		if _, _, err := set.SignIn(t.Context(), c[0], principal.TypedPassword(c[1])); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated || capabilities.AsError(err).PublicMessage() != "name or password is wrong" {
			t.Errorf("%.20q: %v", c, err)
		}
	}
	// A restart knows the same.
	set = principal.Cheap(tokens(t, o))
	if _, _, err := set.SignIn(t.Context(), "ann", principal.TypedPassword(phrase)); err != nil {
		t.Fatal(err)
	}
	ann, err := set.Session(cookie.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Sessions("ann"); len(got) != 2 {
		t.Errorf("%d sessions", len(got))
	}
	// Another password ends the other sessions, and not this one.
	if _, err := set.SetPassword(t.Context(), ann, "ann", password(t, phrase+" 2")); err != nil {
		t.Fatal(err)
	}
	if got := set.Sessions("ann"); len(got) != 1 || got[0].ID != ann.TokenID {
		t.Errorf("sessions after another password: %+v", got)
	}
	if _, _, err := set.SignIn(t.Context(), "ann", principal.TypedPassword(phrase)); err == nil {
		t.Error("the old password is good")
	}
	if _, _, err := set.SignIn(t.Context(), "ann", principal.TypedPassword(phrase+" 2")); err != nil {
		t.Errorf("the new password: %v", err)
	}
	if n, err := set.EndSessions(t.Context(), ann, "ann", ""); err != nil || n != 2 {
		t.Errorf("%d %v", n, err)
	}
	if _, err := set.Session(cookie.Reveal()); err == nil {
		t.Error("signed out everywhere, but here")
	}
	if _, err := set.RemoveUser(t.Context(), principal.Site, "ann"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := set.SignIn(t.Context(), "ann", principal.TypedPassword(phrase+" 2")); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("a removed user: %v", err)
	}
	if len(set.Users()) != 0 || len(tokens(t, o).Users()) != 0 {
		t.Error("a removed user is listed")
	}
	if _, err := set.AddUser(t.Context(), principal.Site, "ann", principal.RoleViewer, password(t, phrase)); err != nil {
		t.Errorf("the name again: %v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", password(t, phrase), password(t, phrase), password(t, phrase), password(t, phrase)); strings.Contains(text, "horse") {
		t.Errorf("it prints: %s", text)
	}
	if text, _ := json.Marshal(map[string]any{"p": password(t, phrase), "u": set.Users()}); strings.Contains(string(text), "horse") || strings.Contains(string(text), "argon") {
		t.Errorf("it prints: %s", text)
	}
	var _ slog.LogValuer = principal.Password{}
}

// These may change how somebody signs in: an admin; everybody else for themselves, right after
// signing in, and with no smaller role than theirs.
func TestWhoChangesAPassword(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "store.db"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	set := principal.Cheap(tokens(t, principal.Options{Store: db, Now: func() time.Time { return now }}))
	enter := func(who capabilities.PrincipalID, role, as principal.Role) principal.Identity {
		t.Helper()
		_, token, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: who, Role: role})
		if err != nil {
			t.Fatal(err)
		}
		id, _ := set.Authenticate(token.Reveal())
		code, _, err := set.Login(id, as)
		if err != nil {
			t.Fatal(err)
		}
		_, cookie, err := set.Redeem(t.Context(), code.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		id, err = set.Session(cookie.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	ann := enter("ann", principal.RoleOperator, "")
	if _, err := set.SetPassword(t.Context(), ann, "ann", password(t, phrase)); err != nil {
		t.Fatalf("for herself: %v", err)
	}
	small, bob := enter("ann", principal.RoleOperator, principal.RoleViewer), enter("bob", principal.RoleOperator, "")
	for name, by := range map[string]principal.Identity{"her own smaller session": small, "another operator": bob, "a token": {TokenID: bob.TokenID + "x", Principal: "ann", Role: principal.RoleOperator}} {
		if _, err := set.SetPassword(t.Context(), by, "ann", password(t, phrase+" stolen")); err == nil {
			t.Errorf("%s changed it", name)
		}
		if _, err := set.Handle(t.Context(), by); name != "another operator" && err == nil {
			t.Errorf("%s may register a passkey", name)
		}
	}
	now = now.Add(principal.FreshFor + time.Second)
	if _, err := set.SetPassword(t.Context(), ann, "ann", password(t, phrase+" late")); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("later: %v", err)
	}
	if _, err := set.SetPassword(t.Context(), principal.Site, "ann", password(t, phrase+" by an admin")); err != nil {
		t.Errorf("an admin: %v", err)
	}
	if _, _, err := set.SignIn(t.Context(), "ann", principal.TypedPassword(phrase+" by an admin")); err != nil {
		t.Error(err)
	}
	if _, err := set.AddUser(t.Context(), principal.Identity{Principal: "x", Role: principal.RoleOperator}, "eve", principal.RoleViewer, password(t, phrase)); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("an operator adds users: %v", err)
	}
	if _, err := set.AddUser(t.Context(), principal.Site, "robot", principal.RoleAgent, password(t, phrase)); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Errorf("an agent as a user: %v", err)
	}
}

// Unknown names cost what known ones do, are limited as known ones are, and whoever
// floods takes no more memory than one hash.
func TestUnknownUsersCostTheSame(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	set := principal.Cheap(tokens(t, principal.Options{Store: open(t, filepath.Join(t.TempDir(), "store.db")), Now: func() time.Time { return now }}))
	if _, err := set.AddUser(t.Context(), principal.Site, "ann", principal.RoleOperator, password(t, phrase)); err != nil {
		t.Fatal(err)
	}
	tried := func(name string) (worked int64, limited int) {
		before := principal.Hashed(set)
		for range 22 {
			if _, _, err := set.SignIn(t.Context(), name, principal.TypedPassword("wrong")); capabilities.CodeOf(err) == capabilities.CodeOverloaded {
				limited++
			}
		}
		return principal.Hashed(set) - before, limited
	}
	a, la := tried("ann")
	b, lb := tried("nobody")
	if a != b || la != lb || a != 20 || la != 2 {
		t.Errorf("ann: %d hashes, %d limited; nobody: %d, %d", a, la, b, lb)
	}
	if _, _, err := set.SignIn(t.Context(), "ann", principal.TypedPassword(phrase)); capabilities.CodeOf(err) != capabilities.CodeOverloaded {
		t.Errorf("the right one among too many: %v", err)
	}
	now = now.Add(time.Minute)
	if _, _, err := set.SignIn(t.Context(), "ann", principal.TypedPassword(phrase)); err != nil {
		t.Errorf("a minute later: %v", err)
	}
	// All at once: a bounded number waits, one is worked on.
	release, err := principal.HoldHasher(set)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	over := make(chan error, 200)
	for i := range 200 {
		all.Go(func() {
			_, _, err := set.SignIn(ctx, fmt.Sprintf("user-%d", i), principal.TypedPassword("wrong"))
			over <- err
		})
	}
	for range 200 - principal.MaxHashing {
		if err := <-over; capabilities.CodeOf(err) != capabilities.CodeOverloaded {
			t.Fatalf("%v", err)
		}
	}
	cancel()
	release()
	all.Wait()
}

func FuzzPasswordRecord(f *testing.F) {
	f.Add("$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$c29tZXN1bXNvbWVzdW1zb21lc3Vtc29tZXN1bXNvbWU")
	f.Add("$argon2id$v=19$m=1,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, text string) {
		again, ok := principal.ReadPasswordRecord(text)
		if ok && again != text {
			t.Errorf("%q became %q", text, again)
		}
		if !ok && again != "" {
			t.Errorf("%q with an error", again)
		}
	})
}

// A user without a password comes in by the link that an admin made, once and as themselves;
// no other link, and none whose maker, user or time is over, opens anything.
func TestWelcome(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var recorded []string
	set := principal.Cheap(tokens(t, principal.Options{
		Store: open(t, filepath.Join(t.TempDir(), "store.db")), Now: func() time.Time { return now },
		Record: func(_ *store.Tx, kind string, by capabilities.PrincipalID, _ any) error {
			recorded = append(recorded, kind+" by "+string(by))
			return nil
		},
	}))
	made, secret, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "root", Role: principal.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	root, err := set.Authenticate(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []capabilities.PrincipalID{"ann", "bea"} {
		if _, err := set.AddUser(t.Context(), root, who, principal.RoleOperator, principal.Password{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := set.SignIn(t.Context(), "ann", principal.TypedPassword("")); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("without a password: %v", err)
	}
	welcome := func(who capabilities.PrincipalID) string {
		t.Helper()
		code, expires, err := set.Welcome(t.Context(), root, who)
		if err != nil || !expires.Equal(now.Add(principal.WelcomeLife)) {
			t.Fatalf("%v until %s", err, expires)
		}
		return code.Reveal()
	}
	refused := func(about, code string) {
		t.Helper()
		if s, _, err := set.Redeem(t.Context(), code); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
			t.Errorf("%s: %+v %v", about, s, err)
		}
	}
	first, second := welcome("ann"), welcome("ann")
	refused("a link that was replaced", first)
	session, cookie, err := set.Redeem(t.Context(), second)
	if err != nil || session.Principal != "ann" || session.Role != principal.RoleOperator {
		t.Fatalf("%+v %v", session, err)
	}
	refused("a link that was used", second)
	ann, err := set.Session(cookie.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if by, err := set.Present(ann); err == nil {
		t.Errorf("a link proves that ann is there, by %s", by)
	}
	if _, err := set.SetPassword(t.Context(), ann, "ann", password(t, phrase)); err != nil {
		t.Errorf("ann's first password: %v", err)
	}
	if _, _, err := set.Welcome(t.Context(), ann, "bea"); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("an operator lets somebody in: %v", err)
	}
	if _, _, err := set.Welcome(t.Context(), root, "nobody"); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("a user that is not there: %v", err)
	}
	old := welcome("bea")
	if _, err := set.SetPassword(t.Context(), root, "bea", password(t, phrase)); err != nil {
		t.Fatal(err)
	}
	refused("a link from before the password", old)
	old = welcome("bea")
	if _, err := set.EndSessions(t.Context(), root, "bea", ""); err != nil {
		t.Fatal(err)
	}
	refused("a link from before everywhere was signed out", old)
	old = welcome("ann")
	if _, err := set.EndSessions(t.Context(), ann, "ann", ann.TokenID); err != nil {
		t.Fatal(err)
	}
	refused("a link from before all other sessions were ended", old)
	old = welcome("bea")
	now = now.Add(principal.WelcomeLife)
	refused("a link that is too old", old)
	old = welcome("bea")
	if _, err := set.RemoveUser(t.Context(), root, "bea"); err != nil {
		t.Fatal(err)
	}
	refused("a link of a removed user", old)
	old = welcome("ann")
	if _, err := set.Revoke(t.Context(), principal.Site, made.ID); err != nil {
		t.Fatal(err)
	}
	refused("a link whose maker's token was revoked", old)
	if !slices.Contains(recorded, "user.welcomed by root") {
		t.Errorf("recorded: %v", recorded)
	}
}
