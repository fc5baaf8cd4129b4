//go:build linux

package browser

import (
	"testing"
)

// While a secret lies in the clipboard no page may read it, in lanes that were there
// and in new ones; afterwards pages are asked about as before.
func TestKeepClipboard(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	n := newNodeAlone(t, s.URL)
	const state = `navigator.permissions.query({name: 'clipboard-read'}).then(p => p.state)`
	const read = `navigator.clipboard.readText().then(t => 'read', e => e.name)`
	n.goTo(s.URL + "/")
	before := n.eval(state)
	if before == "denied" {
		t.Fatal("denied without a reason: this test shows nothing")
	}
	if err := n.h.KeepClipboard(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	later := n.on("lane-2")
	later.goTo(s.URL + "/")
	for name, n := range map[string]*node{"there": n, "new": later} {
		if got := n.eval(state); got != "denied" {
			t.Errorf("%s: %v", name, got)
		}
		if got := n.eval(read); got != "NotAllowedError" {
			t.Errorf("%s: %v", name, got)
		}
	}
	if err := n.h.KeepClipboard(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{n, later} {
		if got := n.eval(state); got != before {
			t.Errorf("%v, %v before", got, before)
		}
	}
}
