package page

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each function that is called is one of the script, and each file is a part of it.
func TestFunctionsAreOfTheScript(t *testing.T) {
	text := source()
	seen := map[Function]bool{}
	for _, f := range Functions {
		if !regexp.MustCompile(`(?m)^(async )?function ` + string(f) + `\(|^(const|let) ` + string(f) + ` =`).MatchString(text) {
			t.Errorf("%s is no function of the page script", f)
		}
		if seen[f] {
			t.Errorf("%s is named twice", f)
		}
		seen[f] = true
	}
	for f := range acting {
		if !seen[f] {
			t.Errorf("%s acts, and is not called", f)
		}
	}
	all, err := filepath.Glob("*.js")
	if err != nil || len(all) != len(parts) {
		t.Errorf("%d files, %d parts (%v)", len(all), len(parts), err)
	}
	for _, part := range parts {
		if _, err := os.Stat(part + ".js"); err != nil {
			t.Error(err)
		}
	}
}

func TestScript(t *testing.T) {
	if got := Outcome.Call(`{"wait":1}`, "2"); got != `__handrail.outcome({"wait":1}, 2)` {
		t.Error(got)
	}
	if !Paste.Acts() || Outcome.Acts() {
		t.Error("what acts is a paste, and no outcome")
	}
	script := Script()
	for _, name := range Taken() {
		if strings.Contains(script, "."+name+" ") || strings.Contains(script, "."+name+"(") {
			t.Errorf("the script asks by the first name %s", name)
		}
	}
	if !strings.Contains(script, Second("getAttribute")) {
		t.Error("second names are not used")
	}
}
