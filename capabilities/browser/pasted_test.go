//go:build linux

package browser

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A lane counts as one with a window until the gateway ends it, whatever its browser does:
// so does one with a profile or a storage state, which a window may have left.
func TestAWindowCountsUntilTheLaneEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	n := stateful(t, t.TempDir(), nil, s.URL)
	elsewhere := struct{ capabilities.Place }{}
	shows := func(id capabilities.LaneID, want bool, when string) {
		t.Helper()
		if got := n.h.Shows(id, elsewhere); got != want {
			t.Errorf("%s: %t", when, got)
		}
	}
	n.goTo(s.URL + "/")
	shows("lane-1", false, "headless")
	l, err := n.h.lane("lane-1")
	if err != nil {
		t.Fatal(err)
	}
	n.h.windows(l) // as where its Chrome has a window
	shows("lane-1", true, "with a window")
	n.must("close", obj{"save_storage_state": "left"})
	shows("lane-1", true, "closed")
	n.goTo(s.URL + "/")
	shows("lane-1", true, "opened again")
	n.h.mu.Lock()
	n.h.expireLocked(0, 1)
	n.h.mu.Unlock()
	shows("lane-1", true, "idle too long")
	n.h.CloseLane("lane-1")
	shows("lane-1", false, "ended")
	n.h.windows(l)
	shows("lane-1", false, "a launch that is late")

	n.on("lane-2").must("launch", obj{"profile": "work"})
	shows("lane-2", true, "with a profile")
	n.on("lane-3").must("launch", obj{"storage_state": "left"})
	shows("lane-3", true, "with a storage state")
}
