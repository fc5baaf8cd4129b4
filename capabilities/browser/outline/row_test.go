package outline

import (
	"fmt"
	"strings"
	"testing"
)

func outlineOf(n int) []Row {
	rows := []Row{{0, `- heading "Top" [level=1]`}, {0, `- table [ref=e1]`}}
	for i := range n {
		rows = append(rows, Row{1, fmt.Sprintf("- row: %d | item", i)}, Row{2, fmt.Sprintf(`- button "Edit %d" [ref=e%d]`, i, i+10)})
	}
	return append(rows, Row{0, `- form "Login" [ref=e2]`}, Row{1, `- textbox "User" [ref=e3]`}, Row{1, `- button "Go" [ref=e4]`})
}

func TestFit(t *testing.T) {
	rows := outlineOf(500)
	whole := Text(rows)
	if text, omitted := Fit(rows, len(whole)); text != whole || omitted != 0 {
		t.Errorf("what fits is cut: %d of %d, %d omitted", len(text), len(whole), omitted)
	}
	for _, max := range []int{200, 500, 1000, 4000, 16000, len(whole) - 1} {
		text, omitted := Fit(rows, max)
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
		if again := len(Text(Rows(text))); again != len(text) {
			t.Error("the text is not the outline it was made of")
		}
	}
	long := []Row{{0, "- text: " + strings.Repeat("ä", 5000)}, {0, `- button "Go" [ref=e1]`}}
	text, omitted := Fit(long, 1000)
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
		role, name, ref := Read(c.line).Parts()
		if role != c.role || name != c.name || ref != c.ref {
			t.Errorf("%s: %q %q %q", c.line, role, name, ref)
		}
	}
	rows := outlineOf(30)
	found, n := Holding(rows, looksFor("Edit 7"), 0)
	if n != 1 || len(found) != 3 || found[0].Ref() != "e1" || found[2].Ref() != "e17" {
		t.Errorf("%d found: %v", n, found)
	}
	// The row itself brings what is below it.
	if found, n = Holding(rows, looksFor("7 | item"), 0); n != 3 || !strings.Contains(Text(found), `"Edit 17"`) {
		t.Errorf("%d found: %v", n, found)
	}
	if top := Shallow(rows, 1); len(top) != 3 || !strings.HasSuffix(top[1].Text, "(+60 lines)") {
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
	return func(line string) bool { return strings.Contains(line, text) }
}
