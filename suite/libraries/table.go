package libraries

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// Row is one line of the table.
type Row struct {
	Library, Version, ID, What string
	Wrong                      string // what does not work; "" if it passed
}

// Tried is an npm package and what was tried of it.
type Tried struct {
	Package    string
	Behaviours []*browser.Behaviour
}

// Rows makes rows of what was run; versions are those of the packages in a folder.
func Rows(outcomes []suite.Outcome, folder string, tried []Tried) ([]Row, error) {
	of := map[string]Row{}
	for _, l := range tried {
		v, err := version(folder, l.Package)
		if err != nil {
			return nil, err
		}
		for _, b := range l.Behaviours {
			of[b.ID] = Row{Library: l.Package, Version: v, ID: b.ID, What: b.Title + ": " + b.Proves}
		}
	}
	var rows []Row
	for _, o := range outcomes {
		if o.Status == suite.NotRun {
			continue
		}
		r := of[o.ID]
		if o.Status == suite.Failed {
			r.Wrong = brief(o.Error)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

var (
	origins = regexp.MustCompile(`http://[a-z0-9.]+:[0-9]+/[^ "]*`)
	refs    = regexp.MustCompile(`"ref":"[^"]*",?`)
)

// brief is a failure in one line, without what differs from run to run.
func brief(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	first = refs.ReplaceAllString(origins.ReplaceAllString(first, "the page"), "")
	if len(first) > 240 {
		first = strings.ToValidUTF8(first[:240], "") + "…"
	}
	return first
}

// Merge puts rows into those that a document has: the ones of behaviours that were not run now stay
// where the version is the same or the library was not tried. Rows of behaviours that are not tried
// any more go.
func Merge(old, rows []Row, tried []Tried) []Row {
	known, ran := map[string]bool{}, map[string]bool{}
	for _, l := range tried {
		for _, b := range l.Behaviours {
			known[b.ID] = true
		}
	}
	versions := map[string]string{}
	for _, r := range rows {
		ran[r.ID], versions[r.Library] = true, r.Version
	}
	merged := slices.Clone(rows)
	for _, r := range old {
		if v := versions[r.Library]; known[r.ID] && !ran[r.ID] && (v == "" || v == r.Version) {
			merged = append(merged, r)
		}
	}
	sort.Slice(merged, func(i, j int) bool { return merged[i].ID < merged[j].ID })
	return merged
}

// Worse returns what passed in old and fails in rows.
func Worse(old, rows []Row) []Row {
	passed := map[string]bool{}
	for _, r := range old {
		passed[r.ID] = r.Wrong == ""
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Wrong == "" || !passed[r.ID] })
}

// Count returns how many packages rows are of, and how many passed.
func Count(rows []Row) (packages, passed int) {
	seen := map[string]bool{}
	for _, r := range rows {
		seen[r.Library] = true
		if r.Wrong == "" {
			passed++
		}
	}
	return len(seen), passed
}

const head = "| package | version | behaviour | what an agent does: what comes of it | result |\n|---|---|---|---|---|\n"

var cells = strings.NewReplacer("|", "&#124;", "<", "&lt;", "\n", " ")

// Table writes rows, with their counts before them. Noun is what the packages are.
func Table(rows []Row, noun, behind string) string {
	var out strings.Builder
	packages, passed := Count(rows)
	fmt.Fprintf(&out, "%d %s, %d behaviours, %d passed; %s.\n\n%s", packages, noun, len(rows), passed, behind, head)
	for _, r := range rows {
		result := "passed"
		if r.Wrong != "" {
			result = "**fails**: " + cells.Replace(r.Wrong)
		}
		fmt.Fprintf(&out, "| %s | %s | `%s` | %s | %s |\n", r.Library, r.Version, r.ID, cells.Replace(r.What), result)
	}
	return out.String()
}

var back = strings.NewReplacer("&#124;", "|", "&lt;", "<")

// Parse reads the rows of a table within a text.
func Parse(text string) []Row {
	var rows []Row
	for line := range strings.Lines(text) {
		c := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(c) != 5 || !strings.HasPrefix(c[2], "`") {
			continue
		}
		r := Row{Library: strings.TrimSpace(c[0]), Version: c[1], ID: strings.Trim(c[2], "`"), What: back.Replace(c[3])}
		if wrong, failed := strings.CutPrefix(c[4], "**fails**: "); failed {
			r.Wrong = strings.TrimSpace(back.Replace(wrong))
		}
		rows = append(rows, r)
	}
	return rows
}
