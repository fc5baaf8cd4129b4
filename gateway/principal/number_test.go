package principal_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// A number opens one session, to whoever types it within its time and few tries.
func TestNumber(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	set := tokens(t, principal.Options{Store: open(t, filepath.Join(t.TempDir(), "store.db")), Now: func() time.Time { return now }})
	rec, token, err := set.Create(t.Context(), principal.Site, principal.Spec{Principal: "admin", Role: principal.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	who, err := set.Authenticate(token.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	show := func() principal.Number {
		t.Helper()
		n, err := set.Number(who)
		if err != nil || len(n.Digits.Reveal()) != 8 || n.Show() != n.Digits.Reveal()[:4]+" "+n.Digits.Reveal()[4:] {
			t.Fatalf("%+v %v", n, err)
		}
		return n
	}
	refused := func(typed, why string) {
		t.Helper()
		if _, _, err := set.RedeemNumber(t.Context(), typed); capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
			t.Errorf("%s: %v", why, err)
		}
	}
	ended := func(n principal.Number, used bool, why string) {
		t.Helper()
		select {
		case got := <-n.Over:
			if got != used {
				t.Errorf("%s: used is %v", why, got)
			}
		default:
			t.Errorf("%s: it is not said to be over", why)
		}
		if set.NumberWaits() {
			t.Errorf("%s: it waits still", why)
		}
	}
	wrong := func(n principal.Number) string { // one digit off
		digits := []byte(n.Digits.Reveal())
		digits[7] = '0' + (digits[7]-'0'+1)%10
		return string(digits)
	}

	refused("", "nothing, without a number")
	n := show()
	for range 4 {
		refused(wrong(n), "a wrong number")
	}
	session, cookie, err := set.RedeemNumber(t.Context(), " "+n.Show()+"\n")
	if err != nil || session.Parent != rec.ID || session.Role != principal.RoleAdmin || session.Principal != "admin" {
		t.Fatalf("%+v %v", session, err)
	}
	if _, err := set.Session(cookie.Reveal()); err != nil {
		t.Error(err)
	}
	ended(n, true, "used")
	refused(n.Show(), "a second use")

	n = show()
	for range 5 {
		refused(wrong(n), "a guess")
	}
	ended(n, false, "guessed at")
	refused(n.Show(), "the right one after five wrong ones")

	first := show()
	second := show()
	if got := <-first.Over; got {
		t.Error("a number that was replaced is said to be used")
	}
	refused(first.Show(), "one that was replaced")
	now = now.Add(principal.LoginLife)
	if set.NumberWaits() {
		t.Error("it waits beyond its time")
	}
	refused(second.Show(), "one that is too old")

	third := show()
	if _, err := set.Revoke(t.Context(), principal.Site, who.TokenID); err != nil {
		t.Fatal(err)
	}
	refused(third.Show(), "one of a token that is revoked")
}
