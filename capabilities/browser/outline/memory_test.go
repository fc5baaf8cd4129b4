package outline

import (
	"fmt"
	"strings"
	"testing"
)

func TestMemory(t *testing.T) {
	var m Memory
	whole, part, other := View{}, View{Ref: "e1"}, View{Boxes: true}
	first := &Shot{ID: "s1", Tab: "a", View: whole, Address: "http://x/#top", Lines: []string{
		`- button "Save" [ref=e1]`, `- button "Go" [ref=e2]`, `- button "Go" [ref=e3]`, `- text: [ref=e4]`,
	}}
	m.Keep(first)
	m.Keep(&Shot{ID: "s2", Tab: "a", View: part, Address: "http://x/other"})
	m.Keep(&Shot{ID: "s3", Tab: "b", View: whole})
	for _, c := range []struct {
		tab, id string
		view    View
		want    string
	}{{"a", "s1", part, "s1"}, {"a", "last", whole, "s1"}, {"a", "last", part, "s2"}, {"a", "last", other, ""}, {"a", "s3", whole, ""}, {"b", "last", whole, "s3"}} {
		got := ""
		if s := m.Find(c.tab, c.id, c.view); s != nil {
			got = s.ID
		}
		if got != c.want {
			t.Errorf("%s of %s in view %v: %q, want %q", c.id, c.tab, c.view, got, c.want)
		}
	}
	if s := m.Latest("a"); s == nil || s.ID != "s2" {
		t.Errorf("%v", s)
	}
	for _, c := range []struct{ ref, address, want string }{
		{"e1", "http://x/", "&{button Save}"}, {"e1", "http://x/#end", "&{button Save}"}, {"e1", "http://x/other", "<nil>"},
		{"e2", "http://x/", "<nil>"}, {"e4", "http://x/", "<nil>"}, {"e9", "http://x/", "<nil>"},
	} {
		if got := fmt.Sprint(m.Former("a", c.ref, c.address)); got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.ref, c.address, got, c.want)
		}
	}
}

// The memory is bounded in number and size; the latest is always there.
func TestMemoryIsBounded(t *testing.T) {
	var m Memory
	for i := range 2 * maxShots {
		m.Keep(&Shot{ID: fmt.Sprint(i), Tab: "a"})
	}
	if m.Find("a", "0", View{}) != nil || m.Find("a", fmt.Sprint(2*maxShots-1), View{}) == nil || len(m.shots) != maxShots {
		t.Errorf("%d are kept", len(m.shots))
	}
	m.Keep(&Shot{ID: "large", Tab: "a", Lines: []string{strings.Repeat("x", 2*maxShotBytes)}})
	if m.Latest("a").ID != "large" || len(m.shots) != 1 {
		t.Errorf("%d are kept", len(m.shots))
	}
}
