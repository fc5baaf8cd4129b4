package terminal

import (
	"strings"
	"testing"
)

// shown is a text as Markdown shows it, in pieces of a size, with the styles as letters.
func shown(text string, size int) string {
	var out strings.Builder
	m := NewMarkdown(&out)
	runes := []rune(text)
	for i := 0; i < len(runes); i += size {
		m.Add(string(runes[i:min(i+size, len(runes))]))
	}
	m.End()
	return strings.NewReplacer(plain, "<>", boldOn, "<b>", dimOn, "<d>", emOn, "<i>", lineOn, "<u>", codeOn, "<c>").Replace(out.String())
}

// TestMarkdown: a text is shown the same in whatever pieces it comes, and nothing of it is lost.
func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"plain words":                       "plain words",
		"# Rent\nIt is **700**, *cold*.\n":  "<b>Rent<>\nIt is <><b>700<>, <><i>cold<>.\n",
		"- one\n  * two\n3. three":          "• one\n  • two\n3. three",
		"> said\nthen":                      "<d>│ <>said\nthen",
		"---\nnext":                         "<d>────────────────────────<>\nnext",
		"use `a*b*c` now":                   "use <><c>a*b*c<> now",
		"```go\nx := *p // # no\n```\nend":  "  <c>x := *p // # no<>\nend",
		"```\nopen":                         "  <c>open",
		"2 * 3 * 4 and snake_case_name":     "2 * 3 * 4 and snake_case_name",
		"a _word_ in it":                    "a <><i>word<> in it",
		"***both*** of them":                "<><b><i>both<> of them",
		`\*not\* it`:                        "*not* it",
		"[bank](https://evil.example/) now": "<u>bank<> (https://evil.example/) now",
		"a[0] and [no link":                 "a[0] and [no link",
		"**open\nnext":                      "<><b>open<>\nnext",
		"ends with *":                       "ends with *",
		"über **groß**":                     "über <><b>groß<>",
		"":                                  "",
		"\n\n":                              "\n\n",
	} {
		for _, size := range []int{1, 2, 3, 1000} {
			if got := shown(text, size); got != want && got != want+"<>" {
				t.Errorf("%q in pieces of %d: %q, want %q", text, size, got, want)
			}
		}
	}
}

// TestMarkdownShowsWordsAtOnce: what begins no mark is shown when it comes.
func TestMarkdownShowsWordsAtOnce(t *testing.T) {
	var out strings.Builder
	m := NewMarkdown(&out)
	for _, piece := range []string{"Your", " rent", " is ", "700"} {
		before := out.Len()
		if m.Add(piece); out.Len() == before {
			t.Errorf("%q is held back after %q", piece, out.String())
		}
	}
}

// FuzzMarkdown: any text is shown the same at once and in pieces.
func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"# a\n- b **c** _d_ `e` [f](g)\n```\nh\n```\n", "*_`[\\", "---\n> > x", "~~~"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = PlainBlock(s)
		if len(s) > maxHeld/2 { // a longer mark is none, and where that is seen depends on the pieces
			return
		}
		if whole, pieces := shown(s, 1<<20), shown(s, 1); strings.ReplaceAll(whole, "<>", "") != strings.ReplaceAll(pieces, "<>", "") {
			t.Errorf("%q: %q in pieces, %q at once", s, pieces, whole)
		}
	})
}
