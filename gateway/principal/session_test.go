package principal_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
)

func TestSessionLife(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "store.db"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := principal.Options{Store: db, Now: func() time.Time { return now }}
	set := tokens(t, o)
	rec, token, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "ann", Role: principal.RoleOperator, TTL: 100 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ann, err := set.Authenticate(token.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	code, expires, err := set.Login(ann, "")
	if err != nil || !expires.Equal(now.Add(principal.LoginLife)) {
		t.Fatal(expires, err)
	}
	opened, cookie, err := set.Redeem(t.Context(), code.Reveal())
	if err != nil || opened.Parent != rec.ID || opened.Role != principal.RoleOperator {
		t.Fatalf("%+v %v", opened, err)
	}
	if _, _, err := set.Redeem(t.Context(), code.Reveal()); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		t.Errorf("a code is good twice: %v", err)
	}
	who, err := set.Session(cookie.Reveal())
	if err != nil || who.Principal != "ann" || who.TokenID != opened.ID {
		t.Fatalf("%+v %v", who, err)
	}
	// A session is no token, a token no session, and neither is a code.
	for _, wrong := range []string{cookie.Reveal(), code.Reveal(), "", "hrt_", "hrs_" + strings.TrimPrefix(token.Reveal(), "hrt_")} {
		if _, err := set.Authenticate(wrong); err == nil {
			t.Errorf("%.6s passes for a token", wrong)
		}
	}
	for _, wrong := range []string{token.Reveal(), code.Reveal(), "", "hrt_" + strings.TrimPrefix(cookie.Reveal(), "hrs_")} {
		if _, err := set.Session(wrong); err == nil {
			t.Errorf("%.6s passes for a session", wrong)
		}
	}

	now = now.Add(11 * time.Hour)
	longer, err := set.ExtendSession(t.Context(), who)
	if err != nil || !longer.ExpiresAt.Equal(now.Add(principal.SessionLife)) {
		t.Fatalf("%+v %v", longer, err)
	}
	now = now.Add(principal.SessionLife - time.Minute)
	again := tokens(t, o) // a restart knows it, and its new end
	if _, err := again.Session(cookie.Reveal()); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if _, err := set.ExtendSession(t.Context(), ann); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Errorf("a token extends itself: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if _, err := set.Session(cookie.Reveal()); err == nil || set.Valid(opened.ID) {
		t.Error("an expired session lets in")
	}
}

func TestSessionEndsWithItsToken(t *testing.T) {
	set := tokens(t, principal.Options{Store: open(t, filepath.Join(t.TempDir(), "store.db"))})
	rec, token, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "ann", Role: principal.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	ann, _ := set.Authenticate(token.Reveal())
	open := func(by principal.Identity, role principal.Role) (principal.Identity, string) {
		t.Helper()
		code, _, err := set.Login(by, role)
		if err != nil {
			t.Fatal(err)
		}
		_, cookie, err := set.Redeem(t.Context(), code.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		who, err := set.Session(cookie.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		return who, cookie.Reveal()
	}
	desk, _ := open(ann, "")
	phone, phoneCookie := open(desk, principal.RoleViewer)
	if phone.Role != principal.RoleViewer {
		t.Errorf("role %s", phone.Role)
	}
	if _, _, err := set.Login(phone, principal.RoleOperator); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("a viewer opens a session that may more: %v", err)
	}
	if err := set.EndSession(t.Context(), desk); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Session(phoneCookie); err != nil {
		t.Errorf("the phone's session ended with the desk's: %v", err)
	}
	if err := set.EndSession(t.Context(), ann); err == nil {
		t.Error("a token ended itself as a session")
	}
	unused, _, err := set.Login(ann, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Revoke(t.Context(), principal.Site, rec.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Session(phoneCookie); err == nil || set.Valid(phone.TokenID) {
		t.Error("a session outlives the token that opened it")
	}
	if _, _, err := set.Redeem(t.Context(), unused.Reveal()); err == nil {
		t.Error("a code outlives the token that made it")
	}
	agent := principal.Identity{TokenID: rec.ID, Principal: "x", Role: principal.RoleAgent}
	if _, _, err := set.Login(agent, ""); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("an agent opens a session: %v", err)
	}
}

func TestLoginCodesAreBounded(t *testing.T) {
	now := time.Now()
	set := tokens(t, principal.Options{Store: open(t, filepath.Join(t.TempDir(), "store.db")), Now: func() time.Time { return now }})
	_, token, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "ann", Role: principal.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	ann, _ := set.Authenticate(token.Reveal())
	var last principal.Secret
	var n int
	for ; err == nil && n < 1000; n++ {
		var code principal.Secret
		if code, _, err = set.Login(ann, ""); err == nil {
			last = code
		}
	}
	if capabilities.CodeOf(err) != capabilities.CodeOverloaded || n > 100 {
		t.Fatalf("%d codes, %v", n, err)
	}
	now = now.Add(principal.LoginLife)
	if _, _, err := set.Redeem(t.Context(), last.Reveal()); err == nil {
		t.Error("a code is good after its time")
	}
	if _, _, err := set.Login(ann, ""); err != nil {
		t.Errorf("old codes stay in the way: %v", err)
	}
}

// A viewer sees what an operator sees, and changes nothing.
func TestViewer(t *testing.T) {
	for _, a := range principal.Actions() {
		if allow(principal.RoleViewer, a) && !allow(principal.RoleOperator, a) {
			t.Errorf("a viewer may %s, an operator not", a)
		}
	}
	for _, a := range []principal.Action{principal.ActCall, principal.ActApprove, principal.ActStop, principal.ActResume, principal.ActManageNodes, principal.ActManageLanes, principal.ActTokens, principal.ActInvite, principal.ActAnyLane} {
		if allow(principal.RoleViewer, a) {
			t.Errorf("a viewer may %s", a)
		}
	}
	if principal.RoleViewer.Covers(principal.RoleAgent) || principal.RoleAgent.Covers(principal.RoleViewer) || !principal.RoleOperator.Covers(principal.RoleViewer) {
		t.Error("agent and viewer have nothing to do with each other")
	}
}

// A stream that runs for a session, and a code that was made in it, ends with what opened it: a
// listener is told of each session, and signing out everywhere leaves no code behind.
func TestSessionsEndWithWhatOpenedThem(t *testing.T) {
	set := tokens(t, principal.Options{Store: open(t, filepath.Join(t.TempDir(), "store.db"))})
	rec, token, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "ann", Role: principal.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	ann, _ := set.Authenticate(token.Reveal())
	sign := func(by principal.Identity) (principal.Token, principal.Identity) {
		t.Helper()
		code, _, err := set.Login(by, "")
		if err != nil {
			t.Fatal(err)
		}
		session, cookie, err := set.Redeem(t.Context(), code.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		who, err := set.Session(cookie.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		return session, who
	}
	first, at := sign(ann)
	second, _ := sign(at)
	code, _, err := set.Login(at, "")
	if err != nil {
		t.Fatal(err)
	}
	byToken, _, err := set.Login(ann, "")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	defer set.OnRevoke(func(id string) { told[id]++ })()
	if _, err := set.EndSessions(t.Context(), ann, "ann", second.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := set.Redeem(t.Context(), code.Reveal()); err == nil {
		t.Error("a code outlives the session that it was made in")
	}
	if _, _, err := set.Redeem(t.Context(), byToken.Reveal()); err == nil {
		t.Error("a code lets somebody in who was signed out everywhere")
	}
	if set.Gone("ann") || set.Gone("nobody") {
		t.Error("somebody is gone who is not, or never was")
	}
	if _, err := set.Revoke(t.Context(), principal.Site, rec.ID); err != nil {
		t.Fatal(err)
	}
	if told[first.ID] != 1 || told[second.ID] != 1 || told[rec.ID] != 1 || len(told) != 3 {
		t.Errorf("told of %v", told)
	}
	if !set.Gone("ann") {
		t.Error("ann has nothing that is good, and is not gone")
	}
}
