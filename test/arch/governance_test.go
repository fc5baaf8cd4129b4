package arch

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// textsOfTests returns the text of each test by its folder and name.
func textsOfTests(t *testing.T, all tree) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range all.files {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		text := string(all.read(t, name))
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatchIndex(text, -1) {
			body := text[m[0]:]
			if end := strings.Index(body, "\n}"); end > 0 {
				body = body[:end]
			}
			found[path.Dir(name)+" "+text[m[2]:m[3]]] = body
		}
	}
	return found
}

// Each signal, response, view and indicator of governance has a row in docs/governance.md with
// tests of whole sites that name it (S1-43 to S1-57).
func TestGovernanceIsTested(t *testing.T) {
	all := readTree(t)
	there := textsOfTests(t, all)
	wanted := map[string][]string{
		"signal": {"network", "write", "secret", "surface", "isolation"}, "response": {"drift_critical", "runner_quarantined", "tool_restricted", "Approve tool"},
		"view": {"coverage", "isolation", "drift", "privilege", "friction"},
		"indicator": {
			"declaration_completeness", "grant_reduction_ratio", "drift_per_1000", "privileged_share", "isolation_mismatches", "mean_time_to_remediate_s",
		},
	}
	_, text, ok := strings.Cut(string(all.read(t, "docs/governance.md")), "\n## What it is tested by\n")
	if !ok {
		t.Fatal("docs/governance.md does not say what it is tested by")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	told := map[string][]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(strings.TrimSpace(cells[2]), "`") {
			continue
		}
		kind, thing := strings.TrimSpace(cells[1]), strings.Trim(cells[2], " `")
		told[kind] = append(told[kind], thing)
		named := namedTest.FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 {
			t.Errorf("nothing tests the %s %s", kind, thing)
		}
		for _, m := range named {
			body, ok := there[m[1]+" "+m[2]]
			if !ok {
				t.Errorf("%s has no %s, which is said to test the %s %s", m[1], m[2], kind, thing)
			}
			code := "code" + strings.ReplaceAll(thing, "_", "") // as errors are named in code
			if ok && !strings.Contains(body, thing) && !strings.Contains(strings.ToLower(body), code) {
				t.Errorf("%s %s does not name the %s %s", m[1], m[2], kind, thing)
			}
		}
	}
	for kind, things := range wanted {
		slices.Sort(things)
		slices.Sort(told[kind])
		if !slices.Equal(things, told[kind]) {
			t.Errorf("of %ss the page has %q, want %q", kind, told[kind], things)
		}
	}
}
