//go:build linux

package browser

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A description says what a call would meet: the page's title and address, and role and name
// of the elements that the call names; a field whose text is hidden is known as such, by ref,
// by selector and by the focus. Nothing is opened for it, and nothing of the address's query
// is told.
func TestDescribe(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<form><label>Name <input name=who></label><label>Password <input type=password name=pw id=pw></label><button>Send all</button></form>`)})
	n := newNode(t, s.URL) // it has no page at first
	describe := func(capability string, args any) capabilities.Scene {
		t.Helper()
		text, _ := json.Marshal(args)
		got, err := n.h.Describe(t.Context(), capabilities.Invocation{Capability: capabilities.CapabilityID("tyrum.browser." + capability), Lane: n.lane, Args: text})
		if err != nil {
			t.Fatalf("%s %s: %v", capability, text, err)
		}
		return got
	}
	if got := describe("click", obj{"ref": "e1"}); fmt.Sprint(got) != fmt.Sprint(capabilities.Scene{}) {
		t.Errorf("without a page: %+v", got)
	}
	n.goTo(s.URL + "/?token=hidden")
	snap := n.snap()
	ref := func(what string) string {
		t.Helper()
		m := regexp.MustCompile(what + `[^\n]*\[ref=(e\d+)\]`).FindStringSubmatch(snap)
		if m == nil {
			t.Fatalf("no %s in\n%s", what, snap)
		}
		return m[1]
	}
	name, pw, send := ref(`"Name"`), ref(`"Password"`), ref(`"Send all"`)
	is := func(got capabilities.Scene, want ...capabilities.SceneElement) {
		t.Helper()
		if got.Window != "Test page" || got.Address != s.URL+"/" || fmt.Sprint(got.Elements) != fmt.Sprint(want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	}
	type el = capabilities.SceneElement
	is(describe("click", obj{"ref": send}), el{Arg: "ref", Role: "button", Name: "Send all"})
	is(describe("type", obj{"ref": name, "text": "ann"}), el{Arg: "ref", Role: "textbox", Name: "Name"})
	is(describe("type", obj{"ref": pw, "text": "x"}), el{Arg: "ref", Role: "textbox", Name: "Password", Secret: true})
	is(describe("type", obj{"selector": "#pw", "text": "x"}), el{Arg: "selector", Role: "textbox", Name: "Password", Secret: true})
	is(describe("fill-form", obj{"fields": []obj{{"ref": name, "value": "ann"}, {"ref": pw, "value": "x"}}}),
		el{Arg: "fields.0.ref", Role: "textbox", Name: "Name"}, el{Arg: "fields.1.ref", Role: "textbox", Name: "Password", Secret: true})
	is(describe("drag", obj{"source_ref": name, "target_ref": send}), el{Arg: "source_ref", Role: "textbox", Name: "Name"}, el{Arg: "target_ref", Role: "button", Name: "Send all"})
	is(describe("click", obj{"ref": "e999"}))
	is(describe("type", obj{"text": "x"})) // nothing has the focus
	n.must("click", obj{"ref": pw})
	is(describe("type", obj{"text": "x"}), el{Role: "textbox", Name: "Password", Secret: true})
	// The description says how much was typed where everybody can read it, and never of a
	// password.
	for _, c := range []struct {
		args  obj
		typed int
	}{{obj{"ref": name, "text": "ann é"}, 5}, {obj{"ref": pw, "text": "hunter2"}, 0}, {obj{"ref": name, "text": "ann\thunter2"}, 0}, {obj{"text": "hunter2"}, 0}} {
		if c.args["ref"] == nil {
			n.must("click", obj{"ref": pw})
		}
		out := n.must("type", c.args)
		if got := out.Did; c.typed > 0 && (got == nil || got.Typed != c.typed) || c.typed == 0 && got != nil && got.Typed != 0 {
			t.Errorf("%v: did %+v", c.args, got)
		}
	}
	for _, c := range []struct {
		args   obj
		fields int
	}{{obj{"ref": name, "value": "ann"}, 1}, {obj{"fields": []obj{{"ref": name, "value": "bob"}, {"ref": pw, "value": "x"}}}, 2}} {
		if out := n.must("fill-form", c.args); out.Did == nil || out.Did.Fields != c.fields || out.Did.Typed != 0 {
			t.Errorf("%v: did %+v", c.args, out.Did)
		}
	}
	if got := describe("navigate", obj{"url": "https://example.com"}); got.Window != "" {
		t.Errorf("a call that goes elsewhere: %+v", got)
	}
}
