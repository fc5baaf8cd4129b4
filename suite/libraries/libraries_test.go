package libraries

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/suite"
)

// Every behaviour has an ID of its own, and every library a version that is pinned.
func TestCatalogue(t *testing.T) {
	data, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	var pinned struct{ Dependencies map[string]string }
	if err := json.Unmarshal(data, &pinned); err != nil {
		t.Fatal(err)
	}
	exact := regexp.MustCompile(`^(npm:[a-z0-9-]+@)?[0-9]+\.[0-9]+\.[0-9]+$`)
	for name, version := range pinned.Dependencies {
		if !exact.MatchString(version) {
			t.Errorf("%s is pinned to %q, which is no exact version", name, version)
		}
	}
	for _, l := range all() {
		if pinned.Dependencies[l.pkg] == "" {
			t.Errorf("%s is about the package %s, which package.json does not have", l.name, l.pkg)
		}
		if len(l.behaviours) == 0 {
			t.Errorf("%s has no behaviour", l.name)
		}
	}
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*\.[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, b := range All() {
		if !form.MatchString(b.ID) || seen[b.ID] || b.Title == "" || b.Proves == "" {
			t.Errorf("%q is no ID, is there twice, or has no title or purpose", b.ID)
		}
		seen[b.ID] = true
	}
}

// A table is read back as it was written.
func TestTableIsReadBack(t *testing.T) {
	rows := []Row{
		{Library: "select2", Version: "4.1.0", ID: "select2.tags", What: "types: it is there"},
		{Library: "select2", Version: "4.1.0", ID: "select2.several", What: "a | b: c", Wrong: "<select> | is hidden"},
	}
	got := Parse("before\n\n" + Table(rows, "libraries", "Chrome/1") + "\nafter\n")
	if !slices.Equal(got, rows) {
		t.Errorf("read %q, want %q", got, rows)
	}
}

// A row is worse only if it passed before. Rows that are not run now stay, unless the version is
// another.
func TestTableKnowsWhatIsWorse(t *testing.T) {
	row := func(id, version, wrong string) Row {
		return Row{Library: "select2", Version: version, ID: "select2." + id, Wrong: wrong}
	}
	old := []Row{row("tags", "1", ""), row("several", "1", "no"), row("by-clicks", "1", ""), row("gone", "1", "")}
	worse := Worse(old,
		[]Row{row("tags", "1", "broken"), row("several", "1", "no"), row("search", "1", "new and wrong"), row("by-clicks", "1", "")})
	if !slices.Equal(worse, []Row{row("tags", "1", "broken")}) {
		t.Errorf("worse: %q", worse)
	}
	if got := Merge(old, []Row{row("tags", "1", "")}, AllTried()); !slices.Equal(got,
		[]Row{row("by-clicks", "1", ""), row("several", "1", "no"), row("tags", "1", "")}) {
		t.Errorf("merged: %q", got)
	}
	if got := Merge(old, []Row{row("tags", "2", "")}, AllTried()); !slices.Equal(got, []Row{row("tags", "2", "")}) {
		t.Errorf("merged with another version: %q", got)
	}
}

// A failure's row does not change from run to run by what is no part of it.
func TestFailuresAreToldAlike(t *testing.T) {
	got := brief("click {\"ref\":\"e3\",\"x\":1} at http://127.0.0.1:4711/a/b was refused\nand an outline")
	if want := `click {"x":1} at the page was refused`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if r, err := Rows([]suite.Outcome{{Behaviour: All()[0], Status: suite.Passed}}, t.TempDir(), AllTried()); err == nil {
		t.Errorf("rows without packages: %v", r)
	}
}
