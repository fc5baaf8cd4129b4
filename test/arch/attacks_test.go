package arch

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var namedTest = regexp.MustCompile("`([a-z0-9/]+) ((?:Test|Fuzz)\\w+)`")

// Every attack of docs/attacks.md names the tests that try it, and they exist; and
// every test of test/attack is on the page.
func TestAttacksAreTried(t *testing.T) {
	all := readTree(t)
	there := map[string]bool{}
	for name := range textsOfTests(t, all) {
		there[name] = true
	}
	var named []string
	for line := range strings.Lines(string(all.read(t, "docs/attacks.md"))) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "tried" {
			continue
		}
		tests := namedTest.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 {
			t.Errorf("nothing tries %q", strings.TrimSpace(cells[1]))
		}
		for _, m := range tests {
			if !there[m[1]+" "+m[2]] {
				t.Errorf("%s has no %s, which is said to try %q", m[1], m[2], strings.TrimSpace(cells[1]))
			}
			named = append(named, m[1]+" "+m[2])
		}
	}
	if len(named) < 100 {
		t.Errorf("only %d tests found on the page: the test is broken", len(named))
	}
	for name := range there {
		if strings.HasPrefix(name, "test/attack ") && name != "test/attack TestMain" && !slices.Contains(named, name) {
			t.Errorf("docs/attacks.md does not name %s", name)
		}
	}
}
