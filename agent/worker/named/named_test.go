package named_test

import (
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/named"
)

func TestWhatAMessageNames(t *testing.T) {
	for _, one := range []struct{ message, quote, page, file string }{
		{`run "make test" now`, "make test", "", ""},
		{`suche „die Miete“ in «  x »`, "die Miete", "", ""},
		{`run "" or "id"`, "id", "", ""},
		{"read https://example.com/a?b=c.", "", "https://example.com/a?b=c", "//example.com/a"},
		{"read example.org", "", "https://example.org", "example.org"},
		{"list docs/", "", "", "docs/"},
		{"open notes/2026/rent.md.", "", "", "notes/2026/rent.md"},
		{"was steht in Übersicht.txt?", "", "", "Übersicht.txt"},
		{"what is new", "", "", ""},
	} {
		if q, p, f := named.Quote(one.message), named.Page(one.message), named.File(one.message); q != one.quote || p != one.page || f != one.file {
			t.Errorf("%s: %q, %q, %q", one.message, q, p, f)
		}
	}
	if got := named.Replace(`read "a.txt", b.txt and example.com/c`, "Q", "U", "F"); got != "read Q, F and U" {
		t.Error(got)
	}
}
