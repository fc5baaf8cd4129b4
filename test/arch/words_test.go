package arch

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The rules of CONTRIBUTING.md, "Words", that a machine can check. The pattern is written so
// that this file does not match itself.
var twoWords = regexp.MustCompile(`\b[cC]a[n] not\b`)

func TestCannotIsOneWord(t *testing.T) {
	all := readTree(t)
	for _, name := range all.files {
		data := all.read(t, name)
		if !isText(data) || name == "CONTRIBUTING.md" {
			continue
		}
		for i, line := range strings.Split(string(data), "\n") {
			for _, at := range twoWords.FindAllStringIndex(line, -1) {
				if !strings.HasPrefix(line[at[1]:], " only") {
					t.Errorf("%s:%d: write it in one word", name, i+1)
				}
			}
		}
	}
}

// A function returns; it does not give.
func TestFunctionsReturn(t *testing.T) {
	all := readTree(t)
	for _, s := range all.code {
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && strings.HasPrefix(f.Doc.Text(), f.Name.Name+" gives ") {
				t.Errorf("%s: %s: write that it returns", s.file, f.Name.Name)
			}
		}
	}
}

// Prose has at most 100 columns. A layout or an example, which is indented, has as many as it
// needs.
func TestCommentsFit(t *testing.T) {
	const most = 100
	all := readTree(t)
	for _, s := range all.code {
		for i, line := range strings.Split(string(all.read(t, s.file)), "\n") {
			text, ok := strings.CutPrefix(strings.TrimLeft(line, "\t"), "// ")
			layout := !ok || strings.HasPrefix(text, "\t") || strings.HasPrefix(text, " ")
			if !layout && utf8.RuneCountInString(line) > most {
				t.Errorf("%s:%d: the comment has more than %d columns", s.file, i+1, most)
			}
		}
	}
}
