package desktop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
)

// Missing parts, no desktop, a locked session, a lost server: each has its code
// and what to do, in calls and in readiness.
func TestReadinessAndRefusals(t *testing.T) {
	b := newTable(t, Options{})
	reasons := func() map[capabilities.CapabilityID]capabilities.Readiness {
		b.h.mu.Lock()
		b.h.ready = cachedReadiness{}
		b.h.mu.Unlock()
		all := map[capabilities.CapabilityID]capabilities.Readiness{}
		for _, r := range b.h.Readiness(t.Context()) {
			all[r.Capability] = r
		}
		if len(all) != len(b.h.Capabilities()) {
			t.Errorf("%d answers", len(all))
		}
		return all
	}
	for id, r := range reasons() {
		if !r.Ready() || r.Isolation != capabilities.ClassSession || r.Backend != "fake" || r.Degraded != "" {
			t.Errorf("%s: %+v", id, r)
		}
	}
	b.d.SetLocked("The session is locked.")
	for id, r := range reasons() {
		if r.Ready() || !strings.Contains(r.Fix, "locked") {
			t.Errorf("%s: %+v", id, r)
		}
	}
	b.refused(capabilities.CodeSessionLocked, "screenshot", `{"display": "all"}`)
	b.refused(capabilities.CodeSessionLocked, "keyboard", `{"action": "type", "text": "x"}`)
	b.d.SetLocked("")

	b.d.SetMissing(platform.PartScreen, &platform.MissingError{What: "The screen may not be recorded.", Fix: "Allow it in the settings.", Permission: true})
	b.d.SetMissing(platform.PartPerson, &platform.MissingError{What: "XInput2 is missing.", Fix: "Update the server."})
	all := reasons()
	if r := all["tyrum.desktop.screenshot"]; r.Reason != capabilities.ReasonPermission || !strings.Contains(r.Fix, "settings") {
		t.Errorf("%+v", r)
	}
	if r := all["tyrum.desktop.keyboard"]; !r.Ready() || r.Degraded != DegradedPerson {
		t.Errorf("%+v", r)
	}
	if r := all["tyrum.desktop.query"]; !r.Ready() || r.Degraded != "" {
		t.Errorf("%+v", r)
	}
	if e := b.refused(capabilities.CodeDesktopUnavailable, "screenshot", `{"display": "all"}`); e.Hint != "Allow it in the settings." {
		t.Errorf("%+v", e)
	}
	b.d.Fail("open", &platform.MissingError{What: "There is no display.", Fix: "Log in."})
	if r := reasons()["tyrum.desktop.mouse"]; r.Reason != capabilities.ReasonBackendMissing || r.Fix != "There is no display. Log in." {
		t.Errorf("%+v", r)
	}
	b.refused(capabilities.CodeDesktopUnavailable, "mouse", `{"action": "move", "x": 1, "y": 1}`)
}

// A display server that goes away under a call: the next one has a new one, and
// what only looks does not even fail.
func TestLostDesktop(t *testing.T) {
	b := newTable(t, Options{})
	b.do("screenshot", `{"display": "all"}`)
	lost := 0
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "input.button" && lost == 0 {
			lost++
			d.Lose()
			d.Fail("input.button", platform.ErrLost)
		}
	}
	b.refused(capabilities.CodeDesktopUnavailable, "mouse", `{"action": "click", "x": 5, "y": 5}`)
	b.d.Fail("input.button", nil)
	b.do("mouse", `{"action": "click", "x": 5, "y": 5}`)
	if b.d.Opens() < 2 || !b.d.Watched() {
		t.Error("the new desktop's person is not watched")
	}
}

// 64 lanes at once: no press and release of one is parted by another's.
func TestManyLanes(t *testing.T) {
	b := newTable(t, Options{})
	before := len(b.d.Events())
	hammer(64, func(i int) {
		lane := fmt.Sprintf("l%d", i)
		for _, c := range [][2]string{
			{"mouse", fmt.Sprintf(`{"action": "click", "x": %d, "y": 1, "duration_ms": 1}`, i)},
			{"screenshot", `{"display": "primary", "max_width": 64}`}, {"snapshot", `{"outline": true}`},
			{"keyboard", fmt.Sprintf(`{"action": "type", "text": "%d"}`, i)},
		} {
			if _, err := b.call(t.Context(), lane, c[0], c[1]); err != nil {
				t.Errorf("%s: %v", c[0], err)
			}
		}
	})
	ops := b.ops(before)
	clicks := 0
	for i, op := range ops {
		if at, ok := strings.CutPrefix(op, "left true at "); ok {
			clicks++
			if i+1 == len(ops) || ops[i+1] != "left false at "+at {
				t.Fatalf("%q was parted from its release: %q", op, ops[i:min(i+3, len(ops))])
			}
		}
	}
	if clicks != 64 {
		t.Errorf("%d clicks", clicks)
	}
	b.nothingHeld()
}

// caller returns a handler a call that nobody hears of.
func caller(h *Handler) *call {
	_, inv, cancel := capabilities.Prepare(context.Background(), capabilities.Invocation{})
	cancel(nil)
	return &call{h, &inv}
}
