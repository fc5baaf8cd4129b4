package arch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	ruleRow   = regexp.MustCompile(`(?m)^\| (S[0-4]-\d\d) \| (.+) \|$`)
	ruleRange = regexp.MustCompile(`\b(S[0-4])-(\d\d)(?: … S[0-4]-(\d\d))?`)
)

// Every numbered rule that the tree cites is on docs/rules.md, once; "S0-14 … S0-23"
// cites all of them.
func TestCitedRulesAreWritten(t *testing.T) {
	all := readTree(t)
	rules := map[string]bool{}
	for _, m := range ruleRow.FindAllStringSubmatch(string(all.read(t, "docs/rules.md")), -1) {
		if rules[m[1]] {
			t.Errorf("docs/rules.md has %s twice", m[1])
		}
		rules[m[1]] = true
	}
	cited := 0
	for _, name := range all.files {
		data := all.read(t, name)
		if name == "docs/rules.md" || !isText(data) {
			continue
		}
		for i, line := range strings.Split(string(data), "\n") {
			for _, rule := range rulesIn(line) {
				if cited++; !rules[rule] {
					t.Errorf("%s:%d cites %s, which docs/rules.md does not have", name, i+1, rule)
				}
			}
		}
	}
	if len(rules) < 100 || cited < 100 {
		t.Errorf("%d rules, cited %d times: the test is broken", len(rules), cited)
	}
}

// Every rule about capabilities, the layers of tools and the registry is proven by a test whose
// comment names it; to name a rule in a test that does not prove it is worse than not to.
func TestToolRulesAreProven(t *testing.T) {
	all := readTree(t)
	named := map[string]bool{}
	for _, name := range all.files {
		if strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "test/arch/rules_") {
			for line := range strings.Lines(string(all.read(t, name))) {
				for _, rule := range rulesIn(line) {
					named[rule] = true
				}
			}
		}
	}
	listed := map[string]bool{}
	for _, m := range ruleRow.FindAllStringSubmatch(string(all.read(t, "docs/rules.md")), -1) {
		listed[m[1]] = true
		if rule := m[1]; (strings.HasPrefix(rule, "S1-") || strings.HasPrefix(rule, "S2-") || strings.HasPrefix(rule, "S3-") || strings.HasPrefix(rule, "S4-")) && !named[rule] {
			t.Errorf("docs/rules.md has %s, which no test names", rule)
		}
	}
	// A rule that nobody cites is not left out for that.
	for _, rule := range rulesIn("S2-20 S2-25 … S2-35 S3-01 … S3-36 S4-01 … S4-51") {
		if !listed[rule] {
			t.Errorf("docs/rules.md has no %s", rule)
		}
	}
}

// rulesIn returns the rules that a line cites.
func rulesIn(line string) (rules []string) {
	for _, m := range ruleRange.FindAllStringSubmatch(line, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			last, _ = strconv.Atoi(m[3])
		}
		for n := first; n <= last; n++ {
			rules = append(rules, fmt.Sprintf("%s-%02d", m[1], n))
		}
	}
	return rules
}

func TestRulesAreFound(t *testing.T) {
	for line, want := range map[string]string{
		"// as it says (S0-19)":           "S0-19",
		"// S4-35 … S4-37, S4-40 for any": "S4-35 S4-36 S4-37 S4-40",
		"// TLS1-30 and SS0-1":            "",
	} {
		if got := strings.Join(rulesIn(line), " "); got != want {
			t.Errorf("%q cites %q, want %q", line, got, want)
		}
	}
}

// A text in the tree can be read by whoever has the tree. (The words are written in two parts so
// that this file does not match.)
func TestNoReferenceLeadsOut(t *testing.T) {
	outside := regexp.MustCompile(`DESIG` + `N(\.md)?\s*(//\s*)?(section|promise|[0-9])`)
	all := readTree(t)
	for _, name := range all.files {
		data := all.read(t, name)
		if !isText(data) {
			continue
		}
		for _, at := range outside.FindAllIndex(data, -1) {
			t.Errorf("%s:%d refers to a document that is not in the tree: say the sentence, or name a page of docs", name, 1+strings.Count(string(data[:at[0]]), "\n"))
		}
	}
}
