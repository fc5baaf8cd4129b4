package selector

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/platform"
)

// drawn builds a tree from lines: two spaces of indent for each level, then the
// role, the name in quotes if it has one, states after "+", "@x,y,w,h", "=value".
func drawn(t testing.TB, app string, pid int, text string) []platform.Element {
	t.Helper()
	var all []platform.Element
	var path []int
	for _, line := range strings.Split(strings.Trim(text, "\n"), "\n") {
		body := strings.TrimLeft(line, "\t ")
		depth := (len(line) - len(body)) / 2
		e := platform.Element{Ref: fmt.Sprintf("fake:%s/%d", app, len(all)), App: app, PID: pid, Parent: -1, States: []string{"enabled", "visible"}}
		e.Role, body, _ = strings.Cut(body, " ")
		if strings.HasPrefix(body, `"`) {
			e.Name, body, _ = strings.Cut(body[1:], `"`)
		}
		for _, word := range strings.Fields(body) {
			switch word[0] {
			case '+':
				e.States = append(e.States, word[1:])
			case '-':
				e.States = slices.DeleteFunc(e.States, func(s string) bool { return s == word[1:] })
			case '=':
				e.Value = word[1:]
			case '#':
				e.Window = word[1:]
			case '@':
				if _, err := fmt.Sscanf(word, "@%d,%d,%d,%d", &e.Bounds.X, &e.Bounds.Y, &e.Bounds.Width, &e.Bounds.Height); err != nil {
					t.Fatal(word, err)
				}
			}
		}
		slices.Sort(e.States)
		if depth > 0 {
			e.Parent = path[depth-1]
			if e.Window == "" {
				e.Window = all[e.Parent].Window
			}
		}
		path = append(path[:depth], len(all))
		all = append(all, e)
	}
	return all
}

func joined(lists ...[]platform.Element) platform.Tree {
	var t platform.Tree
	for _, l := range lists {
		at := len(t.Elements)
		for _, e := range l {
			if e.Parent >= 0 {
				e.Parent += at
			}
			t.Elements = append(t.Elements, e)
		}
	}
	return t
}

func testScene(t testing.TB) *Scene {
	editor := drawn(t, "Mousepad", 100, `
application "Mousepad"
  window "notes.txt - Text Editor" #x11:1 @0,0,800,600
    menubar "" @0,0,800,20
      menu "File" @0,0,40,20
        menuitem "Save" @0,20,100,20 -visible
        menuitem "Save As…" @0,40,100,20 -visible
    toolbar "" @0,20,800,30
      button "Save" @0,20,30,30
      button "Cut Cut" @30,20,30,30 -enabled
    label "Wrap lines" @10,100,80,20
    checkbox "" @100,100,20,20 +checked
    label "Tabs" @10,130,80,20
    checkbox "" @100,130,20,20
    textbox "Text" @0,200,800,300 +editable +multiline =hello
  dialog "Save As" #x11:2 @100,100,300,200
    button "Save" @120,250,60,20
    button "Cancel" @200,250,60,20
`)
	list := drawn(t, "Files", 200, `
application "Files"
  window "Home" #x11:3 @800,0,400,600
    table "" @800,0,400,600
      row "" @800,0,400,20
        cell "notes.txt" @800,0,300,20
        button "Delete" @1100,0,50,20
      row "" @800,20,400,20
        cell "Notes.TXT" @800,20,300,20
        button "Delete" @1100,20,50,20
      row "" @800,40,400,20
        cell "a  strange   name" @800,40,300,20
        button "Delete" @1100,40,50,20
`)
	own := drawn(t, "Handrail", 300, `
application "Handrail"
  window "Approve?" #x11:9 @0,0,200,100
    button "Save" @0,0,50,20
`)
	windows := []platform.Window{
		{Ref: "x11:9", Title: "Approve?", PID: 300, Own: true}, {Ref: "x11:2", Title: "Save As", PID: 100},
		{Ref: "x11:1", Title: "notes.txt - Text Editor", PID: 100}, {Ref: "x11:3", Title: "Home", PID: 200},
	}
	return NewScene(joined(editor, own, list), windows, func(ref string) string {
		if ref == "e7" {
			return "fake:Mousepad/7"
		}
		return ref
	})
}

func found(t testing.TB, s *Scene, text string) string {
	t.Helper()
	sel, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var refs []string
	for _, i := range s.Find(sel) {
		refs = append(refs, strings.TrimPrefix(s.Elements[i].Ref, "fake:"))
	}
	return strings.Join(refs, " ")
}

func TestMatching(t *testing.T) {
	s := testScene(t)
	for text, want := range map[string]string{
		`window:"Text Editor" >> role:button && name:"Save"`:            "Mousepad/7",
		`window:"Save As" >> name:"Save"`:                               "Mousepad/15",
		`window:"x11:2" >> role:button`:                                 "Mousepad/15 Mousepad/16",
		`window:"Text Editor"`:                                          "Mousepad/1",
		`window:"Save As"`:                                              "Mousepad/14",
		`app:files`:                                                     "Files/0",
		`app:files && role:button && nth:2`:                             "Files/8",
		`app:200 role:button nth:-1`:                                    "Files/11",
		`role:button && name:"save"`:                                    "Mousepad/7 Mousepad/15",
		`role:cell && name:"notes.txt"`:                                 "Files/4",
		`role:cell && name:"Notes.TXT"`:                                 "Files/7",
		`role:cell && name:"NOTES.txt"`:                                 "Files/4 Files/7",
		`name:"a strange name"`:                                         "Files/10",
		`name~:"save as"`:                                               "Mousepad/5 Mousepad/14",
		`text:hello`:                                                    "Mousepad/13",
		`value:"hello"`:                                                 "Mousepad/13",
		`value:"hell"`:                                                  "",
		`value~:"hell"`:                                                 "Mousepad/13",
		`role:checkbox && state:checked`:                                "Mousepad/10",
		`role:checkbox && state:unchecked`:                              "Mousepad/12",
		`role:button && state:disabled`:                                 "Mousepad/8",
		`role:menuitem && state:hidden`:                                 "Mousepad/4 Mousepad/5",
		`role:button && !state:enabled`:                                 "Mousepad/8",
		`role:checkbox && right-of:"Tabs"`:                              "Mousepad/12",
		`role:checkbox && near:"Tabs"`:                                  "Mousepad/12 Mousepad/10",
		`role:label && left-of:(role:checkbox && nth:1)`:                "Mousepad/9",
		`role:label && above:"Tabs"`:                                    "Mousepad/9",
		`role:checkbox && below:"Wrap lines"`:                           "",
		`role:label && below:"Wrap lines"`:                              "Mousepad/11",
		`role:row && has:"notes.txt" >> role:button`:                    "Files/5",
		`role:row && has:(role:cell && name~:"strange") >> role:button`: "Files/11",
		`role:row && !has:(name~:"notes") >> role:button`:               "Files/11",
		`e7`:                     "Mousepad/7",
		`ref:"fake:nothing"`:     "",
		`ref:"fake:Mousepad/8"`:  "Mousepad/8",
		`x11:3`:                  "Files/1",
		`window:Approve`:         "",
		`app:Handrail`:           "",
		`app:Handrail >> "Save"`: "",
		`role:button && (name:"cut cut" || name:CANCEL)`: "Mousepad/8 Mousepad/16",
		`role:button && name:Cut`:                        "Mousepad/8",
		`role:window >> role:dialog`:                     "",
		`role:application >> role:dialog`:                "Mousepad/14",
		`role:spinbutton`:                                "",
		`role:button nth:40`:                             "",
	} {
		if got := found(t, s, text); got != want {
			t.Errorf("%s finds %q, want %q", text, got, want)
		}
	}
}

// A character that is dangerous to show is in no outline, and a selector finds a name with it or
// without; those that a name is spelled with stay.
func TestDirectionMarks(t *testing.T) {
	for text, want := range map[string]string{
		"23\u200e∶06":              "23∶06",
		"\u2068a.txt\u2069 opened": "a.txt opened",
		"\u200f\u200e":             "",
		"one\u00a0\u200f two":      "one two",
		"…\u200d👩":                 "…\u200d👩",
		"x\u202etxt.exe":           "xtxt.exe",
		"\u202bx\u202c":            "x",
		"\u202aa\u202db\u2060c":    "abc",
		"a\u200bb\ufeff\u00adc":    "abc",
		"go\U000e0041\U000e0042":   "go",
		"a\nb\u2028c\x1b[1m":       "a b c[1m",
		"می\u200cخواهم":            "می\u200cخواهم",
		"\ue001 Home":              "\ue001 Home",
	} {
		if got := Simple(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	s := NewScene(joined(drawn(t, "Files", 1, `
application "Files"
  window "Open" @0,0,400,300
    cell "23`+"\u200e"+`∶06" @0,0,50,20
    cell "photo`+"\u202e"+`gnp.exe" @0,20,50,20
`)), nil, func(ref string) string { return ref })
	for _, text := range []string{`name:"23∶06"`, "name:\"23\u200e∶06\"", `name~:"3∶0"`} {
		if got := found(t, s, text); got != "Files/2" {
			t.Errorf("%q finds %q", text, got)
		}
	}
	for _, text := range []string{`name:"photognp.exe"`, "name:\"photo\u202egnp.exe\""} {
		if got := found(t, s, text); got != "Files/3" {
			t.Errorf("%q finds %q", text, got)
		}
	}
}

func TestOneOfMany(t *testing.T) {
	s := testScene(t)
	for text, want := range map[string]string{
		`window:"Text Editor" >> name:"Save"`: "fake:Mousepad/7", // the one that shows; the menu's does not
		`role:checkbox && near:"Wrap lines"`:  "fake:Mousepad/10",
		`name:"Save"`:                         "", // two show
		`name:"Save" && role:menuitem`:        "fake:Mousepad/4",
	} {
		sel, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		i, ok := s.One(sel, s.Find(sel))
		if ok != (want != "") || ok && s.Elements[i].Ref != want {
			t.Errorf("%s means %v, %v; want %s", text, s.Elements[i].Ref, ok, want)
		}
	}
}

func TestNearestNames(t *testing.T) {
	s := testScene(t)
	for text, want := range map[string]string{
		`role:button && name:"Sve"`:                 "Mousepad/7",
		`window:"Text Editer" >> role:button`:       "Mousepad/1",
		`window:Home >> name:"Save" && role:button`: "",
		`role:cell && name:"notes"`:                 "Files/4",
		`role:slider`:                               "",
	} {
		sel, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Find(sel); len(got) > 0 {
			t.Fatalf("%s finds %v", text, got)
		}
		near := s.Nearest(sel)
		got := ""
		if len(near) > 0 {
			got = strings.TrimPrefix(s.Elements[near[0]].Ref, "fake:")
		}
		if got != want {
			t.Errorf("%s comes nearest to %q, want %q", text, got, want)
		}
	}
}

// Trees that break the rules of the seam do no harm.
func TestStrangeTrees(t *testing.T) {
	for _, elements := range [][]platform.Element{
		nil,
		{{Ref: "a", Parent: 5}},
		{{Ref: "a", Parent: 0}},
		{{Ref: "a", Parent: 1}, {Ref: "b", Parent: 0}},
		{{Ref: "a", Parent: -7}, {Ref: "b", Parent: 0}, {Ref: "c", Parent: -1}, {Ref: "d", Parent: 1}},
	} {
		s := NewScene(platform.Tree{Elements: elements}, nil, func(r string) string { return r })
		if len(s.Elements) != len(elements) {
			t.Errorf("%v became %v", elements, s.Elements)
		}
		for i, e := range s.Elements {
			if e.Parent >= i || s.Last[i] < i || s.Last[i] >= len(s.Elements) || e.Parent >= 0 && s.Last[e.Parent] < s.Last[i] {
				t.Errorf("%v: %v is wrong: %v", elements, i, s.Last)
			}
		}
	}
}

func BenchmarkFind(b *testing.B) {
	var text strings.Builder
	text.WriteString("application \"Big\"\n  window \"Big\" #x11:1\n    table \"\"\n")
	for i := range 3000 {
		fmt.Fprintf(&text, "      row \"\"\n        cell \"item %d\" @0,0,10,10\n        button \"Delete\" @0,0,10,10\n", i)
	}
	tree := joined(drawn(b, "Big", 1, text.String()))
	sel, err := Parse(`window:"Big" >> role:row && has:(name:"item 2900") >> role:button && name:"Delete"`)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := NewScene(tree, nil, func(r string) string { return r })
		if len(s.Find(sel)) != 1 {
			b.Fatal("not found")
		}
	}
}
