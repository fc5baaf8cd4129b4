package catalog

import (
	"strings"
	"testing"
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
			if got := d.Say(c.evidence, false); got != c.do {
				t.Errorf("%s %v: %q, want %q", c.tool, c.evidence, got, c.do)
			}
			if got := d.Say(c.evidence, true); got != c.done {
				t.Errorf("%s %v: %q, want %q", c.tool, c.evidence, got, c.done)
			}
		}
	}
	bad := &Descriptor{Tool: "tool.x.y", Phrase: Phrase{Do: "type {text}", Done: "typed {text}"}}
	if err := bad.validatePhrase(); err == nil || !strings.Contains(err.Error(), "not recorded") {
		t.Errorf("a phrase with what is not recorded: %v", err)
	}
}
