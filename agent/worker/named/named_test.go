package named_test

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/named"
)

func TestWhatAMessageNames(t *testing.T) {
	for _, one := range []struct{ message, quote, page, file string }{
		{`run "make test" now`, "make test", "", ""},
		{`suche „die Miete“ in «  x »`, "die Miete", "", ""},
		{`run "" or "id"`, "id", "", ""},
		{"read https://example.com/a?b=c.", "", "https://example.com/a?b=c", ""},
		{"read example.org", "", "https://example.org", ""},
		{"list docs/", "", "", "docs/"},
		{"open notes/2026/rent.md.", "", "", "notes/2026/rent.md"},
		{"was steht in Übersicht.txt?", "", "", "Übersicht.txt"},
		{"what is new", "", "", ""},
		{"read https://example.com/a.txt into b.txt", "", "https://example.com/a.txt", "b.txt"},
	} {
		if q, p, f := named.Quote(one.message), named.Page(one.message), named.File(one.message); q != one.quote || p != one.page || f != one.file {
			t.Errorf("%s: %q, %q, %q", one.message, q, p, f)
		}
	}
	if got := named.Replace(`read "a.txt", b.txt and example.com/c`, "Q", "U", "F"); got != "read Q, F and U" {
		t.Error(got)
	}
}

// TestClauses: a message is parted where a request follows another, and never inside of what it
// names or quotes, nor between nouns, verbs of one infinitive or words of one question.
func TestClauses(t *testing.T) {
	for message, want := range map[string]string{
		"Open https://a.example/x?and=then and click OK.":     "Open https://a.example/x?and=then|acts click OK.",
		"list docs, then summarise it":                        "list docs|says summarise it",
		"Read a.txt. Please send it to Ben!":                  "Read a.txt.|sends send it to Ben!",
		"What is here? Then read b.txt":                       "What is here?|says read b.txt",
		`search for "this and read that" in bread and butter`: `search for "this and read that" in bread and butter`,
		"find a tool to copy and move files":                  "find a tool to copy and move files",
		"I want you to list docs and read a.txt":              "I want you to list docs|says read a.txt",
		"how do I open and close files":                       "how do I open and close files",
		"run make and make":                                   "run make and make",
		"Lies a.txt und schick ihn an Anna":                   "Lies a.txt|sends schick ihn an Anna",
		"Résume le dossier inbox et envoie-le à Anna":         "Résume le dossier inbox|sends envoie-le à Anna",
		"Resume la carpeta inbox y envíala":                   "Resume la carpeta inbox|sends envíala",
		"Abre https://a.example y haz clic en Entrar":         "Abre https://a.example|acts haz clic en Entrar",
		"read a.txt; remember that I did":                     "read a.txt|keeps remember that I did",
		"Read a.txt. Then  luego léelo":                       "Read a.txt.|says léelo",
		"":                                                    "",
		"and":                                                 "and",
		"İİİ and read \xff a.txt":                             "İİİ|says read \xff a.txt",
	} {
		var got []string
		for i, c := range named.Clauses(message) {
			text := message[c.From:c.To]
			if i > 0 {
				text = string(c.Verb) + " " + text
			}
			got = append(got, text)
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%q is %q, not %q", message, s, want)
		}
	}
}

func FuzzClauses(f *testing.F) {
	f.Add("Read a.txt and send it. Then „x“; y luego léelo")
	f.Add("d a.txt and send it. Then  luego léelo")
	f.Fuzz(func(t *testing.T, message string) {
		end := 0
		for _, c := range named.Clauses(message) {
			if c.From < end || c.To < c.From || c.To > len(message) {
				t.Fatalf("%q: %+v after %d", message, c, end)
			}
			end = c.To
		}
	})
}
