package catalog

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestPhrases(t *testing.T) {
	all, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all.All() {
		if d.Phrase.Do == "" {
			t.Errorf("%s says nothing to people", d.Tool)
		}
	}
	for _, c := range []struct {
		tool     string
		evidence map[string]any
		do, done string
	}{
		{"tool.browser.navigate", map[string]any{"url": "https://example.com/…"}, "open example.com", "opened example.com"},
		{"tool.browser.navigate", map[string]any{"url": "about:blank"}, "open about:blank", "opened about:blank"},
		{"tool.browser.navigate", nil, "open", "opened"},
		{"tool.browser.click", map[string]any{"ref": "e1"}, "click", "clicked"},
		{"tool.browser.click", map[string]any{"x": int64(3), "y": 4.5}, "click at 3, 4.5", "clicked at 3, 4.5"},
		{"tool.browser.click", map[string]any{"selector": "a\n{x} [b]"}, "click on a {x} [b]", "clicked on a {x} [b]"},
		{"tool.desktop.mouse", map[string]any{"action": "click", "x": int64(1)}, "mouse: click", "mouse: click"},
	} {
		for _, d := range all.All() {
			if string(d.Tool) != c.tool {
				continue
			}
			if got := d.Say(c.evidence, false, Did{}); got != c.do {
				t.Errorf("%s %v: %q, want %q", c.tool, c.evidence, got, c.do)
			}
			if got := d.Say(c.evidence, true, Did{}); got != c.done {
				t.Errorf("%s %v: %q, want %q", c.tool, c.evidence, got, c.done)
			}
		}
	}
	bad := &Descriptor{Tool: "tool.x.y", Phrase: Phrase{Do: "type {text}", Done: "typed {text}"}}
	if err := bad.validatePhrase(); err == nil || !strings.Contains(err.Error(), "not recorded") {
		t.Errorf("a phrase with what is not recorded: %v", err)
	}
}

// Tools of two providers that have the same words are told apart.
func TestAProvidedToolNamesItsProvider(t *testing.T) {
	for want, d := range map[string]*Descriptor{
		"Echo Tool (everything)": {Tool: "tool.everything.echo", Provider: "everything", Title: "Echo Tool"},
		"Save a page (macro)":    {Tool: "tool.macro.save-page", Provider: "save-page", Title: "Save a page"},
	} {
		if got := d.Say(nil, true, Did{}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A call's phrase says what it did: how much was typed where it may be told, and the application.
func TestSayWhatWasDone(t *testing.T) {
	c, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		tool     string
		evidence map[string]any
		did      Did
		done     bool
		want     string
	}{
		{"tool.desktop.keyboard", map[string]any{"action": "type"}, Did{Typed: 24, App: "Mousepad"}, true, "typed 24 characters into Mousepad"},
		{"tool.desktop.keyboard", map[string]any{"action": "type"}, Did{Typed: 1}, true, "typed 1 character"},
		{"tool.desktop.keyboard", map[string]any{"action": "type"}, Did{App: "Mousepad"}, true, "keyboard: type in Mousepad"},
		{"tool.desktop.keyboard", map[string]any{"action": "type"}, Did{}, true, "keyboard: type"},
		{"tool.desktop.keyboard", map[string]any{"action": "type"}, Did{Typed: 24, App: "Mousepad"}, false, "keyboard: type"},
		{"tool.desktop.act", map[string]any{"action_kind": "click"}, Did{App: "Files"}, true, "used the desktop: click in Files"},
		{"tool.browser.type", map[string]any{"selector": "#q"}, Did{Typed: 3}, true, "typed 3 characters into #q"},
		{"tool.browser.type", map[string]any{}, Did{}, true, "typed text"},
		{"tool.desktop.mouse", map[string]any{"action": "click", "x": 6, "y": 7}, Did{App: "Files"}, true, "mouse: click at 6, 7 in Files"},
		{"tool.desktop.mouse", map[string]any{"action": "click", "x": 6, "y": 7}, Did{}, true, "mouse: click at 6, 7"},
		{"tool.browser.fill-form", map[string]any{}, Did{Fields: 3}, true, "filled in a form: 3 fields"},
		{"tool.browser.fill-form", map[string]any{}, Did{Fields: 1}, true, "filled in a form: 1 field"},
		{"tool.browser.fill-form", map[string]any{}, Did{}, true, "filled in a form"},
		{"tool.browser.navigate", map[string]any{"url": "https://example.com/x"}, Did{}, true, "opened example.com"},
	} {
		d, ok := c.Get(capabilities.ToolID(q.tool))
		if !ok {
			t.Fatal(q.tool)
		}
		if got := d.Say(q.evidence, q.done, q.did); got != q.want {
			t.Errorf("%s %v %+v: %q, want %q", q.tool, q.evidence, q.did, got, q.want)
		}
	}
}
