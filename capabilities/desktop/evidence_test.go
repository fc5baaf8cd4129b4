package desktop

import (
	"testing"

	"github.com/handrail-dev/handrail/platform"
)

// That a menu opens, closes or moves its highlight is no effect of what its item does.
func TestMenusAreNoEvidence(t *testing.T) {
	item := func(role string, states ...string) *platform.Element {
		return &platform.Element{Ref: "item", Role: role, States: states}
	}
	for _, c := range []struct {
		was, now *platform.Element
		effect   bool
	}{
		{item("menuitem", "enabled", "offscreen"), item("menuitem", "enabled", "visible", "selected", "focused"), false},
		{item("menuitem", "enabled", "visible", "selected"), item("menuitem", "enabled", "hidden"), false},
		{item("menuitem", "enabled", "offscreen"), item("menuitem", "offscreen"), true}, // Save, once it is saved
		{item("menuitemcheckbox", "enabled", "offscreen"), item("menuitemcheckbox", "checked", "enabled", "offscreen"), true},
		{item("listitem", "enabled", "visible"), item("listitem", "enabled", "visible", "selected"), true},
	} {
		if how := changed(c.was, c.now); (how != "") != c.effect {
			t.Errorf("%s %v, then %v: %q", c.was.Role, c.was.States, c.now.States, how)
		}
	}
	tr := &trace{target: *item("menuitem"), menus: map[string]bool{"item": true, "menu": true}}
	for ref, counts := range map[string]bool{"menu": false, "page": true} {
		var seen weak
		tr.tells(platform.ElementEvent{Ref: ref, Kind: "changed"}, &seen)
		if seen.elsewhere != counts {
			t.Errorf("a change of the %s counts: %v", ref, seen.elsewhere)
		}
	}
}
