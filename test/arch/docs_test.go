package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var mapRow = regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\|")

// docs/packages.md is the map: every package is on it, and nothing else.
func TestMapIsTrue(t *testing.T) {
	all := readTree(t)
	var mapped []string
	for _, m := range mapRow.FindAllStringSubmatch(string(all.read(t, "docs/packages.md")), -1) {
		mapped = append(mapped, m[1])
	}
	packages := all.packages()
	for _, dir := range packages {
		if !slices.Contains(mapped, dir) {
			t.Errorf("docs/packages.md does not show %s", dir)
		}
	}
	for _, dir := range mapped {
		if !slices.Contains(packages, dir) {
			t.Errorf("docs/packages.md shows %s, which does not exist", dir)
		}
	}
}

// CONTRIBUTING.md says where to add what: its folders and files are there.
func TestPlacesToAddAreThere(t *testing.T) {
	_, text, _ := strings.Cut(string(readTree(t).read(t, "CONTRIBUTING.md")), "\n## Where to add\n")
	text, _, _ = strings.Cut(text, "\n## ")
	rows := 0
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[2], "`") {
			continue
		}
		rows++
		var folder string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			path := filepath.Join("..", "..", m[1])
			switch {
			case m[1] == "pages" || !strings.Contains(m[1], "/") && strings.HasSuffix(m[1], ".go"):
				path = filepath.Join(folder, m[1])
			case !strings.Contains(m[1], "/"):
				continue // a name in the code
			case filepath.Ext(m[1]) == "":
				folder = path
			}
			if there, err := filepath.Glob(path); err != nil || len(there) == 0 {
				t.Errorf("CONTRIBUTING.md: to add%sone looks in %s, which is not there", cells[1], m[1])
			}
		}
	}
	if rows < 8 {
		t.Errorf("CONTRIBUTING.md says of %d things where to add them", rows)
	}
}

// Each direct dependency has its reason (docs/dependencies.md), and no reason
// outlives its dependency.
func TestDependenciesHaveReasons(t *testing.T) {
	all := readTree(t)
	required := map[string]bool{}
	for line := range strings.Lines(string(all.read(t, "go.mod"))) {
		f := strings.Fields(line)
		if len(f) == 2 && strings.Contains(f[0], "/") && strings.HasPrefix(f[1], "v") || len(f) == 2 && f[0] == "rsc.io/qr" {
			required[f[0]] = true // an indirect one has a comment, so more fields
		}
	}
	given := map[string]bool{}
	for line := range strings.Lines(string(all.read(t, "docs/dependencies.md"))) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			given[m[1]] = true
		}
	}
	for m := range required {
		if !given[m] {
			t.Errorf("docs/dependencies.md gives no reason for %s", m)
		}
	}
	for m := range given {
		if !required[m] {
			t.Errorf("docs/dependencies.md explains %s, which go.mod does not require directly", m)
		}
	}
	if len(required) == 0 {
		t.Error("no direct dependency found in go.mod: the test is broken")
	}
}

var link = regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`)

// TestModuleCanBeInstalled: 'go install' of a version refuses a module whose go.mod
// replaces or excludes anything.
func TestModuleCanBeInstalled(t *testing.T) {
	for line := range strings.Lines(string(readTree(t).read(t, "go.mod"))) {
		if f := strings.Fields(line); len(f) > 0 && (f[0] == "replace" || f[0] == "exclude") {
			t.Errorf("go.mod: %s", strings.TrimSpace(line))
		}
	}
}

// Links between documents lead somewhere, and the index names every document.
func TestDocumentLinksResolve(t *testing.T) {
	all := readTree(t)
	index := string(all.read(t, "docs/README.md"))
	for _, name := range all.files {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		if filepath.ToSlash(filepath.Dir(name)) == "docs" && name != "docs/README.md" && !strings.Contains(index, "("+filepath.Base(name)+")") {
			t.Errorf("docs/README.md does not name %s", name)
		}
		for _, m := range link.FindAllStringSubmatch(string(all.read(t, name)), -1) {
			target := filepath.Join(all.root, filepath.Dir(filepath.FromSlash(name)), filepath.FromSlash(m[1]))
			if _, err := os.Stat(target); err != nil {
				if _, ok := err.(*fs.PathError); ok {
					t.Errorf("%s links to %s, which does not exist", name, m[1])
				}
			}
		}
	}
}

// The host a package comes from is a setting of the machine, not of the project.
// (The names are written in two parts so that this file does not match.)
func TestNoFileNamesARegistry(t *testing.T) {
	hosts := []string{"proxy.golang" + ".org", "registry.npmjs" + ".org", "deb.debian" + ".org", "sum.golang" + ".org"}
	all := readTree(t)
	for _, name := range all.files {
		data := all.read(t, name)
		if !isText(data) {
			continue
		}
		for _, host := range hosts {
			if strings.Contains(string(data), host) {
				t.Errorf("%s names the registry host %s", name, host)
			}
		}
	}
}

var (
	decisionName = regexp.MustCompile(`^docs/decisions/(([0-9]{3})-[a-z0-9-]+\.md)$`)
	decisionForm = regexp.MustCompile(`(?s)^# ([^0-9\n][^\n]*)\n\nStatus: .+?\n\nContext: .+?\n\nDecision: .+?\n\nConsequence: .+$`)
)

// A decision has one form, is short, and is in the index under its title.
func TestDecisionsHaveOneForm(t *testing.T) {
	const most = 150
	all := readTree(t)
	index := string(all.read(t, "docs/decisions/README.md"))
	found := 0
	for _, name := range all.files {
		file := decisionName.FindStringSubmatch(name)
		if file == nil {
			if strings.HasPrefix(name, "docs/decisions/") && name != "docs/decisions/README.md" {
				t.Errorf("%s: the name of a decision is NNN-topic.md", name)
			}
			continue
		}
		found++
		text := string(all.read(t, name))
		if n := len(strings.Fields(text)); n > most {
			t.Errorf("%s has %d words, at most %d are allowed", name, n, most)
		}
		form := decisionForm.FindStringSubmatch(text)
		if form == nil {
			t.Errorf("%s: a decision is a title without number, then paragraphs that begin Status:, Context:, Decision: and Consequence:", name)
			continue
		}
		if line := "- [" + file[2] + "](" + file[1] + ") " + form[1] + "\n"; !strings.Contains(index, line) {
			t.Errorf("docs/decisions/README.md has no line %q", line)
		}
	}
	if found == 0 {
		t.Error("no decision found: the test is broken")
	}
}
