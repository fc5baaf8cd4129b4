package principal_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

func open(t testing.TB, path string) *store.Store {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: path, Migrations: principal.Migrations(), ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func tokens(t testing.TB, o principal.Options) *principal.Tokens {
	t.Helper()
	set, err := principal.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return set
}

func TestTokenLife(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db := open(t, path)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	var recorded []string
	set := tokens(t, principal.Options{Store: db, Now: clock, Record: func(_ *store.Tx, kind string, by capabilities.PrincipalID, body any) error {
		recorded = append(recorded, fmt.Sprintf("%s by %s: %v", kind, by, body))
		return nil
	}})
	rec, secret, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "alice", Role: principal.RoleAgent, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Lane != "alice" || !rec.ExpiresAt.Equal(now.Add(time.Hour)) || rec.CreatedBy != "site" {
		t.Errorf("record %+v", rec)
	}
	if !strings.HasPrefix(secret.Reveal(), "hrt_") || len(secret.Reveal()) != 47 {
		t.Errorf("a token of %d characters", len(secret.Reveal()))
	}
	who, err := set.Authenticate(secret.Reveal())
	if err != nil || who != (principal.Identity{TokenID: rec.ID, Principal: "alice", Role: principal.RoleAgent, Lane: "alice"}) {
		t.Fatalf("%+v %v", who, err)
	}

	// A restart knows the same tokens.
	again := tokens(t, principal.Options{Store: db, Now: clock})
	if who, err := again.Authenticate(secret.Reveal()); err != nil || who.TokenID != rec.ID {
		t.Errorf("after a restart: %+v %v", who, err)
	}
	if got := again.List(); len(got) != 1 || got[0] != rec {
		t.Errorf("list after a restart: %+v, want %+v", got, rec)
	}

	now = now.Add(time.Hour)
	if _, err := set.Authenticate(secret.Reveal()); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated || set.Valid(rec.ID) {
		t.Errorf("expired: %v", err)
	}
	now = now.Add(-time.Minute)
	var told []string
	cancel := set.OnRevoke(func(id string) { told = append(told, id) })
	for range 2 { // the second time it is done already
		if got, err := set.Revoke(t.Context(), principal.Site, rec.ID); err != nil || got.RevokedAt.IsZero() {
			t.Fatalf("%+v %v", got, err)
		}
	}
	cancel()
	if len(told) != 1 || told[0] != rec.ID || len(recorded) != 2 {
		t.Errorf("told %v, recorded %v", told, recorded)
	}
	for _, set := range []*principal.Tokens{set, tokens(t, principal.Options{Store: db, Now: clock})} {
		if _, err := set.Authenticate(secret.Reveal()); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
			t.Errorf("revoked: %v", err)
		}
	}
	if _, err := set.Revoke(t.Context(), principal.Site, "nothing"); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("an unknown token: %v", err)
	}

	// The kept form cannot be turned back into the token, nor is the token told anywhere.
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(path + "*")
	var kept bytes.Buffer
	for _, f := range files {
		data, _ := os.ReadFile(f)
		kept.Write(data)
	}
	hash := sha256.Sum256([]byte(secret.Reveal()))
	if bytes.Contains(kept.Bytes(), []byte(secret.Reveal())) || !bytes.Contains(kept.Bytes(), hash[:]) {
		t.Error("the store must hold the token's hash and nothing else of it")
	}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", secret)
	fmt.Fprintf(&out, "%v %+v %#v %s", secret, secret, secret, secret)
	fmt.Fprint(&out, recorded)
	if strings.Contains(out.String(), secret.Reveal()[4:]) {
		t.Errorf("the token prints: %s", out.String())
	}
}

func TestEndedTokensLeaveTheList(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "store.db"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := principal.Options{Store: db, Now: func() time.Time { return now }}
	set := tokens(t, o)
	for _, ttl := range []time.Duration{time.Hour, 0} {
		if _, _, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "a", Role: principal.RoleAgent, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(89 * 24 * time.Hour)
	if got := tokens(t, o).List(); len(got) != 2 {
		t.Errorf("%d kept after 89 days", len(got))
	}
	now = now.Add(2 * 24 * time.Hour)
	if got := tokens(t, o).List(); len(got) != 1 || !got[0].ExpiresAt.IsZero() {
		t.Errorf("after 91 days: %+v", got)
	}
}

func TestCreateRefuses(t *testing.T) {
	set := tokens(t, principal.Options{Store: open(t, filepath.Join(t.TempDir(), "store.db"))})
	for name, c := range map[string]struct {
		spec principal.Spec
		code capabilities.Code
	}{
		"no principal": {principal.Spec{Role: principal.RoleAgent}, capabilities.CodeInvalidRequest},
		"bad name":     {principal.Spec{Principal: "a b", Role: principal.RoleAgent}, capabilities.CodeInvalidRequest},
		"control":      {principal.Spec{Principal: "a\n", Role: principal.RoleAgent}, capabilities.CodeInvalidRequest},
		"bad lane":     {principal.Spec{Principal: "a", Lane: "x y", Role: principal.RoleAgent}, capabilities.CodeInvalidRequest},
		"no role":      {principal.Spec{Principal: "a"}, capabilities.CodeInvalidRequest},
		"bad role":     {principal.Spec{Principal: "a", Role: "root"}, capabilities.CodeInvalidRequest},
		"negative":     {principal.Spec{Principal: "a", Role: principal.RoleAgent, TTL: -1}, capabilities.CodeInvalidRequest},
		"for ever":     {principal.Spec{Principal: "a", Role: principal.RoleAgent, TTL: 100 * 365 * 24 * time.Hour}, capabilities.CodeInvalidRequest},
	} {
		if _, _, err := set.Create(t.Context(), principal.Site, c.spec); capabilities.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(set.List()); n != 0 {
		t.Errorf("%d tokens exist", n)
	}
}

// A change that cannot be recorded does not happen.
func TestUnrecordedIsUndone(t *testing.T) {
	fail := errors.New("no")
	var broken bool
	set := tokens(t, principal.Options{Store: open(t, filepath.Join(t.TempDir(), "store.db")), Record: func(*store.Tx, string, capabilities.PrincipalID, any) error {
		if broken {
			return fail
		}
		return nil
	}})
	rec, secret, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "a", Role: principal.RoleAgent})
	if err != nil {
		t.Fatal(err)
	}
	broken = true
	if _, _, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "b", Role: principal.RoleAgent}); !errors.Is(err, fail) {
		t.Errorf("create: %v", err)
	}
	if _, err := set.Revoke(t.Context(), principal.Site, rec.ID); !errors.Is(err, fail) {
		t.Errorf("revoke: %v", err)
	}
	if _, err := set.Authenticate(secret.Reveal()); err != nil || len(set.List()) != 1 {
		t.Errorf("half a change happened: %v, %d tokens", err, len(set.List()))
	}
}

// Nobody makes a token that may do more than its maker, whatever is asked.
func TestGrantsAreSubsets(t *testing.T) {
	set := tokens(t, principal.Options{Store: open(t, filepath.Join(t.TempDir(), "store.db"))})
	roles := []principal.Role{"", principal.RoleAgent, principal.RoleViewer, principal.RoleOperator, principal.RoleAdmin, "root", "Admin"}
	rapid.Check(t, func(rt *rapid.T) {
		by := principal.Identity{Principal: "maker", Role: rapid.SampledFrom(roles).Draw(rt, "by")}
		spec := principal.Spec{Principal: "made", Role: rapid.SampledFrom(roles).Draw(rt, "role")}
		rec, _, err := set.Create(context.Background(), by, spec)
		if err != nil {
			return
		}
		for _, a := range principal.Actions() {
			if allow(rec.Role, a) && !allow(by.Role, a) {
				rt.Fatalf("%s made a token that may %s", by.Role, a)
			}
		}
	})
	if _, _, err := set.Create(t.Context(), principal.Identity{Role: principal.RoleOperator}, principal.Spec{Principal: "x", Role: principal.RoleAgent}); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("an operator makes tokens: %v", err)
	}
	if _, err := set.Revoke(t.Context(), principal.Identity{Role: principal.RoleAgent}, "x"); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("an agent revokes tokens: %v", err)
	}
}

// allow is what the shipped rules say of a role.
func allow(r principal.Role, what principal.Action) bool {
	return principal.Identity{Principal: "ann", Role: r, Lane: "ann"}.May(what)
}

func TestAllow(t *testing.T) {
	for _, a := range principal.Actions() {
		if !allow(principal.RoleAdmin, a) {
			t.Errorf("an admin may not %s", a)
		}
		if allow("", a) || allow("root", a) {
			t.Errorf("an unknown role may %s", a)
		}
		if allow(principal.RoleAgent, a) && !allow(principal.RoleOperator, a) {
			t.Errorf("an operator may not %s, an agent may", a)
		}
	}
	if allow(principal.RoleAdmin, "new.thing") {
		t.Error("an unknown action is allowed")
	}
	for _, a := range []principal.Action{principal.ActManageNodes, principal.ActTokens, principal.ActReadAllCalls, principal.ActAnyLane, principal.ActReadLedger, principal.ActReadPolicy} {
		if allow(principal.RoleAgent, a) {
			t.Errorf("an agent may %s", a)
		}
	}
	for _, r := range []principal.Role{principal.RoleAgent, principal.RoleViewer, principal.RoleOperator, principal.RoleAdmin} {
		if got, err := principal.ParseRole(r.String()); err != nil || got != r {
			t.Errorf("%s does not parse: %v", r, err)
		}
	}
}

// The role rules decide each action as the table of roles in the program did before them, which
// testdata/roles.txt was made of: each action with the roles that may do it.
func TestRolesDecideAsBefore(t *testing.T) {
	text, err := os.ReadFile("testdata/roles.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := principal.Actions()
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		what, may := principal.Action(words[0]), words[1:]
		if !slices.Contains(known, what) {
			t.Errorf("no rule can name %s", what)
		}
		for _, r := range []principal.Role{"", "root", principal.RoleAgent, principal.RoleViewer, principal.RoleOperator, principal.RoleAdmin} {
			if got, want := allow(r, what), slices.Contains(may, string(r)); got != want {
				t.Errorf("role %q, %s: %v, and before %v", r, what, got, want)
			}
		}
		known = slices.DeleteFunc(known, func(a principal.Action) bool { return a == what })
	}
	if len(known) > 0 {
		t.Errorf("not in the table: %v", known)
	}
}

// A token may do as much as the policy in force says, at once and for who it is.
func TestAuthorityFollowsThePolicy(t *testing.T) {
	load := func(text string) *policy.Engine {
		t.Helper()
		e, err := policy.Load([]policy.Source{{Name: "mine.cedar", Data: []byte(text)}}, tools{})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	engine := load("")
	set := tokens(t, principal.Options{Store: open(t, filepath.Join(t.TempDir(), "store.db")), Authority: principal.NewAuthority(func() *policy.Engine { return engine })})
	_, secret, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "ann", Role: principal.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	ann, err := set.Authenticate(secret.Reveal())
	if err != nil || !ann.May(principal.ActTokens) {
		t.Fatal("an admin may not make tokens", err)
	}
	engine = load(`forbid (principal == User::"ann", action == Action::"tokens", resource);`)
	if _, _, err := set.Create(t.Context(), ann, principal.Spec{Principal: "bob", Role: principal.RoleAgent}); capabilities.CodeOf(err) != capabilities.CodeDeniedByPolicy {
		t.Errorf("what the policy forbids: %v", err)
	}
	if !set.Is("eve", principal.RoleAdmin).May(principal.ActTokens) || ann.As("ann", principal.RoleAdmin).May(principal.ActTokens) {
		t.Error("the rule is about ann")
	}
}

type tools struct{}

func (tools) All() []*catalog.Descriptor { return nil }

func BenchmarkAuthenticate(b *testing.B) {
	set := tokens(b, principal.Options{Store: open(b, filepath.Join(b.TempDir(), "store.db"))})
	_, secret, err := set.Create(b.Context(), principal.Site, principal.Spec{Principal: "a", Role: principal.RoleAgent})
	if err != nil {
		b.Fatal(err)
	}
	token := secret.Reveal()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := set.Authenticate(token); err != nil {
			b.Fatal(err)
		}
	}
}
