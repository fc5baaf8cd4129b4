package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
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

var nounClause = regexp.MustCompile(`(?:^|[.!?]\)? )(?:Who|What|Whoever|Whatever) [^?]*?(?:[.!](?: |$)|$)`)

// beginsWithNounClause reports whether a sentence of a text begins with who or what, and is no
// question.
func beginsWithNounClause(text string) bool {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if nounClause.MatchString(strings.Join(strings.Fields(paragraph), " ")) {
			return true
		}
	}
	return false
}

// A sentence begins with the thing that it is about.
func TestSentencesBeginWithTheirSubject(t *testing.T) {
	for comment, want := range map[string]bool{
		"What is late is dropped.":              true,
		"It waits. Who is late\nis dropped.":    true,
		"A list:\n\nWhat is in it":              true,
		"(It waits.) What is late is dropped.":  true,
		"What is late? It is dropped.":          false,
		"Whatever is late is dropped.":          true,
		"It waits. Whoever is late is dropped.": true,
		"It drops what is late.":                false,
	} {
		if beginsWithNounClause(comment) != want {
			t.Errorf("%q: %t", comment, !want)
		}
	}
	all := readTree(t)
	for _, s := range all.code {
		for _, group := range s.syntax.Comments {
			if beginsWithNounClause(group.Text()) {
				t.Errorf("%s:%d: begin with the thing, not with who or what", s.file, all.fset.Position(group.Pos()).Line)
			}
		}
		if s.isTest() {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil && beginsWithNounClause(text) {
					t.Errorf("%s:%d: begin with the thing, not with who or what", s.file, all.fset.Position(l.Pos()).Line)
				}
			}
			return true
		})
	}
	for _, name := range all.files {
		if !strings.HasSuffix(name, ".md") || name == "docs/tools.md" { // which is made of the catalog
			continue
		}
		text := partOfPage.ReplaceAllString(string(all.read(t, name)), "\n\n")
		for paragraph := range strings.SplitSeq(text, "\n\n") {
			if beginsWithNounClause(paragraph) {
				t.Errorf("%s: %.60q: begin with the thing, not with who or what", name, strings.TrimSpace(paragraph))
			}
		}
	}
}

// partOfPage is what may stand before the first sentence of a part: the first word of a decision's
// paragraph, or the mark of a heading, of an entry of a list, of a cell.
var partOfPage = regexp.MustCompile(`(?m)^(?:Context: |Decision: |Consequence: |# |- )|\| `)

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

// wide are the rooms and files whose lines may have more than 140 columns, each with its reason.
var wide = map[string]string{
	"capabilities/code.go": "a table, one row a code",
	"test/**":              "tests and measurements",
}

// A line of code has at most 140 columns. A raw string, such as SQL or a page, is laid out by its
// own rules; tests may have tables.
func TestLinesFit(t *testing.T) {
	const most = 140
	all := readTree(t)
	needed := map[string]bool{}
	for _, s := range all.code {
		if s.isTest() {
			continue
		}
		free := ""
		for place := range wide {
			if place == s.file || covers(place, s.dir()) {
				free = place
			}
		}
		raw := map[int]bool{}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && strings.HasPrefix(l.Value, "`") {
				for i := all.fset.Position(l.Pos()).Line; i <= all.fset.Position(l.End()).Line; i++ {
					raw[i] = true
				}
			}
			return true
		})
		for i, line := range strings.Split(string(all.read(t, s.file)), "\n") {
			if raw[i+1] || utf8.RuneCountInString(line) <= most {
				continue
			}
			if needed[free] = true; free == "" {
				t.Errorf("%s:%d: the line has more than %d columns", s.file, i+1, most)
			}
		}
	}
	for place := range wide {
		if !needed[place] {
			t.Errorf("%s has no wide line any more: take it out of wide", place)
		}
	}
}

// wordingRooms say an action in the words of a surface; nothing else in these folders names a
// command.
var wordingRooms = []string{"capabilities/command", "gateway/front/console/**", "gateway/front/mcp/**"}

// A hint asks for an action, which each surface words: a command that stands in a sentence is wrong
// on every other one.
func TestHintsNameNoCommand(t *testing.T) {
	all := readTree(t)
	var names []string
	for _, heading := range regexp.MustCompile("(?m)^### `handrail ([a-z-]+)").FindAllStringSubmatch(string(all.read(t, "docs/cli.md")), -1) {
		names = append(names, heading[1])
	}
	if len(names) < 20 {
		t.Fatalf("docs/cli.md names %d commands", len(names))
	}
	named := regexp.MustCompile(`'handrail\b|\bhandrail (?:` + strings.Join(names, "|") + `)\b`)
	for text, want := range map[string]bool{
		"Run 'handrail doctor' on the node.": true,
		"Look at it: handrail tools diff T":  true,
		"Allow location for handrail.":       false,
	} {
		if named.MatchString(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
	for _, s := range all.code {
		if s.isTest() || coversAny(wordingRooms, s.dir()) || !coversAny([]string{"gateway/**", "agent/**", "capabilities/**"}, s.dir()) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(l.Value)
			seed := regexp.MustCompile(`^handrail [a-z ]+(?: 1|\|)`).MatchString(text) // what a hash begins with
			if err == nil && !seed && named.MatchString(text) {
				t.Errorf("%s:%d: %q: a hint says what to do by a capabilities.Action", s.file, all.fset.Position(l.Pos()).Line, text)
			}
			return true
		})
	}
}

// A flag of ours in a sentence is a command line in words, too.
func TestHintsNameNoFlag(t *testing.T) {
	all := readTree(t)
	ours := map[string]bool{}
	for _, flag := range regexp.MustCompile("--([a-z][a-z-]+)").FindAllStringSubmatch(string(all.read(t, "docs/cli.md")), -1) {
		ours[flag[1]] = true
	}
	if delete(ours, "help"); len(ours) < 50 {
		t.Fatalf("docs/cli.md names %d flags", len(ours))
	}
	flag := regexp.MustCompile(`\S[ (]+--([a-z][a-z-]*[a-z])(?:[^a-z=-]|$)`)
	names := func(text string) bool {
		for _, m := range flag.FindAllStringSubmatch(text, -1) {
			if ours[m[1]] {
				return true
			}
		}
		return false
	}
	for text, want := range map[string]bool{
		"Name a folder: --workspace DIR.": true, "It needs one (--net).": true, "Give it with --data": true, "--read ": false,
		"a pattern such as --help": false, "text in front of it (--name={})": false, "Start Chrome with --remote-debugging-port.": false,
	} {
		if names(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
	for _, s := range all.code {
		if s.isTest() || coversAny(wordingRooms, s.dir()) || !coversAny([]string{"gateway/**", "agent/**", "capabilities/**"}, s.dir()) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(l.Value); err == nil && names(text) {
				t.Errorf("%s:%d: %q: a hint says what to do by a capabilities.Action", s.file, all.fset.Position(l.Pos()).Line, text)
			}
			return true
		})
	}
}
