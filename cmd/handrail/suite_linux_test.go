package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/test/desk"
)

// The suite of the desktop as an owner runs it: the program itself, on the desktop that
// its environment names, with its exit codes, its report and its JSON.
func TestSuiteDesktop(t *testing.T) {
	d := desk.StartX(t, desk.Options{})
	desk.Need(t, "chromium")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "handrail") // by this name the test binary is the program
	if os.Link(self, program) != nil {
		data, err := os.ReadFile(self)
		if err := errors.Join(err, os.WriteFile(program, data, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(want int, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(d.Env, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "TMPDIR="+dir)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Fatalf("handrail %q ended with %d (%v), want %d:\n%s\n%s", args, code, err, want, out, said.String())
		}
		return string(out)
	}
	if list := run(terminal.ExitOK, "suite", "desktop", "--list"); strings.Count(list, "\n") < 100 || !strings.Contains(list, "act.menu ") {
		t.Errorf("the list of behaviours:\n%s", list)
	}
	run(terminal.ExitUsage, "suite", "desktop", "--run", "(")
	run(terminal.ExitUsage, "suite", "desktop", "--run", "no such behaviour")
	run(terminal.ExitUnreachable, "suite", "desktop") // there is no gateway

	report := filepath.Join(dir, "report")
	out := run(terminal.ExitOK, "ci", "--browser-sandbox", "auto", "--desktop", "--", program, "suite", "desktop", "--browser-sandbox", "auto", "--json", "--run", `^(frame\.click|refusal\.window|person\.looking)$`, "--report", report)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var last struct {
		Event  string `json:"event"`
		Total  int    `json:"total"`
		Passed int    `json:"passed"`
		NotRun int    `json:"not_run"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 4 || last.Event != "report" || last.Total != 3 || last.Passed != 2 || last.NotRun != 1 {
		t.Errorf("%v, %+v:\n%s", err, last, out)
	}
	var junit struct {
		Tests   int `xml:"tests,attr"`
		Skipped int `xml:"skipped,attr"`
	}
	data, err := os.ReadFile(filepath.Join(report, "junit.xml"))
	if err == nil {
		err = xml.Unmarshal(data, &junit)
	}
	if err != nil || junit.Tests != 3 || junit.Skipped != 1 {
		t.Errorf("%v, %+v:\n%s", err, junit, data)
	}
	if data, err := os.ReadFile(filepath.Join(report, "report.json")); err != nil || !json.Valid(data) || !strings.Contains(string(data), `"suite": "desktop"`) {
		t.Errorf("%v:\n%s", err, data)
	}
	// Without the owner's word the desktop is not lent: nobody can be asked here.
	run(terminal.ExitUnreachable, "ci", "--browser-sandbox", "auto", "--", program, "suite", "desktop", "--run", "^refusal")
}
