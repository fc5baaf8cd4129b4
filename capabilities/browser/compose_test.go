package browser

import (
	"fmt"
	"strings"
	"testing"
)

func outlineOf(n int) []row {
	rows := []row{{0, `- heading "Top" [level=1]`}, {0, `- table [ref=e1]`}}
	for i := range n {
		rows = append(rows, row{1, fmt.Sprintf("- row: %d | item", i)}, row{2, fmt.Sprintf(`- button "Edit %d" [ref=e%d]`, i, i+10)})
	}
	return append(rows, row{0, `- form "Login" [ref=e2]`}, row{1, `- textbox "User" [ref=e3]`}, row{1, `- button "Go" [ref=e4]`})
}

func TestFit(t *testing.T) {
	rows := outlineOf(500)
	whole := textOf(rows)
	if text, omitted := fit(rows, len(whole)); text != whole || omitted != 0 {
		t.Errorf("what fits is cut: %d of %d, %d omitted", len(text), len(whole), omitted)
	}
	for _, max := range []int{200, 500, 1000, 4000, 16000, len(whole) - 1} {
		text, omitted := fit(rows, max)
		if len(text) > max {
			t.Errorf("%d characters of at most %d", len(text), max)
		}
		kept := 0
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.Contains(line, "left out") {
				kept += len(line) + 1
			}
		}
		if kept+omitted != len(whole)+1 {
			t.Errorf("max %d: %d kept and %d omitted of %d", max, kept, omitted, len(whole)+1)
		}
		if max >= 1000 {
			// Every part is there, and the note says how to get the rest of the long one.
			wants(t, text, `- heading "Top"`, `button "Edit 0"`, `- button "Go"`, "characters left out; snapshot with ref e1 shows them")
		}
		if again := len(textOf(rowsOf(text))); again != len(text) {
			t.Error("the text is not the outline it was made of")
		}
	}
	long := []row{{0, "- text: " + strings.Repeat("ä", 5000)}, {0, `- button "Go" [ref=e1]`}}
	text, omitted := fit(long, 1000)
	if len(text) > 1000 || omitted == 0 || !strings.Contains(text, `"Go"`) || !strings.Contains(text, "more characters") {
		t.Errorf("%d omitted: %s", omitted, text)
	}
}

func TestRows(t *testing.T) {
	for _, c := range []struct{ line, role, name, ref string }{
		{`- button "Save" [disabled] [ref=e4]`, "button", "Save", "e4"},
		{`    - link "a [ref=e9] \"b\" \ud83d" [ref=f2e1] -> /x?[ref=e8]`, "link", "a [ref=e9] \"b\" \ufffd", "f2e1"},
		{`- text: see [ref=e3]`, "text", "", ""},
		{`- iframe [hint=x] [ref=e1]`, "iframe", "", "e1"},
		{`- row: a [ref=e1]`, "row", "", ""},
		{`- textbox "M": "[ref=e5]"`, "textbox", "M", ""},
		{`- button "broken`, "button", "", ""},
		{`nothing`, "", "", ""},
	} {
		role, name, ref := rowOf(c.line).parts()
		if role != c.role || name != c.name || ref != c.ref {
			t.Errorf("%s: %q %q %q", c.line, role, name, ref)
		}
	}
	rows := outlineOf(30)
	found, n := holding(rows, looksFor("EDIT 7"), 0)
	if n != 1 || len(found) != 3 || found[0].ref() != "e1" || found[2].ref() != "e17" {
		t.Errorf("%d found: %v", n, found)
	}
	// The row itself brings what is below it.
	if found, n = holding(rows, looksFor("7 | item"), 0); n != 3 || !strings.Contains(textOf(found), `"Edit 17"`) {
		t.Errorf("%d found: %v", n, found)
	}
	if top := shallow(rows, 1); len(top) != 3 || !strings.HasSuffix(top[1].text, "(+60 lines)") {
		t.Errorf("%v", top)
	}
}

func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("missing %q in:\n%s", part, text)
		}
	}
}

func looksFor(text string) func(string) bool {
	a := snapshotArgs{Search: text}
	a.compile()
	return a.finds
}
