//go:build linux

package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A principal neither gets nor changes what another keeps under a name, nor can find out
// that it is there.
func TestKeptIsThePrincipalsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>shop</p>")})
	n := stateful(t, t.TempDir(), func(o *Options) {
		o.Shared = map[string][]capabilities.PrincipalID{"ours": {"alice", "bob"}}
	}, s.URL)
	alice, mallory, bob := n.as("alice"), n.as("mallory"), n.as("bob")
	login := func(who *node, as string) {
		who.goTo(s.URL + "/")
		who.eval("document.cookie = 'sid=" + as + "; max-age=9999'; localStorage.k = '" + as + "'; 1")
	}
	holds := func(who *node, want string) {
		t.Helper()
		who.goTo(s.URL + "/")
		if got := who.eval("document.cookie + '|' + (localStorage.k ?? '')"); got != want {
			t.Errorf("%s holds %v, want %s", who.who, got, want)
		}
	}
	alice.must("launch", obj{"profile": "shop"})
	login(alice, "alice")
	alice.must("close", obj{"save_storage_state": "shop-state"})

	mallory.must("launch", obj{"profile": "shop"})
	holds(mallory, "|")
	login(mallory, "mallory")
	mallory.must("close", obj{})
	theirs := mallory.refused(capabilities.CodeNotFound, "launch", obj{"storage_state": "shop-state"})
	nobodys := mallory.refused(capabilities.CodeNotFound, "launch", obj{"storage_state": "no-such-st"})
	if len(theirs.PublicMessage()) != len(nobodys.PublicMessage()) || theirs.PublicHint() != nobodys.PublicHint() {
		t.Errorf("a name of another's is told apart: %q, %q", theirs.PublicMessage(), nobodys.PublicMessage())
	}
	login(mallory, "mallory")
	mallory.must("close", obj{"save_storage_state": "shop-state"})

	alice.must("launch", obj{"storage_state": "shop-state"})
	holds(alice, "sid=alice|alice")
	alice.must("close", obj{})
	alice.must("launch", obj{"profile": "shop"})
	holds(alice, "sid=alice|alice")
	alice.must("close", obj{})

	// The owner's list alone makes a name one thing for several.
	alice.must("launch", obj{"profile": "ours"})
	login(alice, "both")
	alice.must("close", obj{"save_storage_state": "ours"})
	bob.must("launch", obj{"profile": "ours"})
	holds(bob, "sid=both|both")
	bob.must("close", obj{})
	bob.must("launch", obj{"storage_state": "ours"})
	bob.must("close", obj{})
	mallory.refused(capabilities.CodeNotFound, "launch", obj{"storage_state": "ours"})
}

// A thing that was kept before names were anybody's goes to the only principal that can
// have made it, or to whom the owner says, or stays where it is.
func TestKeptFromBefore(t *testing.T) {
	t.Parallel()
	o, _ := options(t)
	for _, c := range []struct {
		title  string
		sole   func() (capabilities.PrincipalID, bool)
		shared map[string][]capabilities.PrincipalID
		who    capabilities.PrincipalID
		gets   bool // what lay there
		code   capabilities.Code
	}{
		{"the only one", func() (capabilities.PrincipalID, bool) { return "alice", true }, nil, "alice", true, ""},
		{"another", func() (capabilities.PrincipalID, bool) { return "alice", true }, nil, "mallory", false, ""},
		{"there were several", func() (capabilities.PrincipalID, bool) { return "", false }, nil, "alice", false, capabilities.CodeDeniedByNode},
		{"not known", nil, nil, "alice", false, capabilities.CodeDeniedByNode},
		{"the owner's word", nil, map[string][]capabilities.PrincipalID{"shop": {"bob"}}, "bob", true, ""},
		{"the owner's word is another's", nil, map[string][]capabilities.PrincipalID{"shop": {"bob"}}, "alice", false, capabilities.CodeDeniedByNode},
	} {
		o.StateDir, o.SoleUser, o.Shared = t.TempDir(), c.sole, c.shared
		for _, path := range []string{"profiles/shop/x", "states/shop.json"} {
			path = filepath.Join(o.StateDir, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		for k, file := range map[kind]string{profiles: "x", states: ""} {
			path, err := h.kept(k, c.who, "shop")
			if capabilities.CodeOf(err) != c.code {
				t.Errorf("%s, %s: %v, want %q", c.title, k.folder, err, c.code)
				continue
			}
			if got := err == nil && exists(filepath.Join(path, file)); got != c.gets {
				t.Errorf("%s, %s: it is there: %v, want %v", c.title, k.folder, got, c.gets)
			}
		}
		if _, err := h.kept(profiles, c.who, "other"); err != nil {
			t.Errorf("%s: another name: %v", c.title, err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []map[string][]capabilities.PrincipalID{{"../x": {"a"}}, {"x": nil}} {
		if o.Shared = bad; true {
			if _, err := New(o); err == nil {
				t.Errorf("%v was taken", bad)
			}
		}
	}
}
