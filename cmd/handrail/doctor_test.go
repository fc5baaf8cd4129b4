package main

import (
	"strings"
	"testing"
)

// A remedy that mends several findings is told once, in the fuller words.
func TestDoctorTellsEachFixOnce(t *testing.T) {
	cmd := newDoctorCmd()
	var out strings.Builder
	cmd.SetOut(&out)
	const fix = "Set DISPLAY."
	printFindings(cmd, []finding{
		{Part: "host", Name: "desktop", OK: true, Code: "backend_missing", Detail: "There is none.", Fix: fix},
		{Part: "node", Name: "n1 camera", OK: true, Code: "device_missing", Fix: "Connect one."},
		{Part: "node", Name: "n1 desktop", OK: true, Code: "backend_missing", Fix: "There is none. " + fix},
		{Part: "node", Name: "n1 live", OK: true, Code: "backend_missing", Fix: "There is none. " + fix},
		{Part: "node", Name: "n2 live", Code: "permission_missing", Fix: fix},
	})
	_, told, _ := strings.Cut(out.String(), "\n\n")
	const want = `desktop (backend_missing)
n1 desktop (backend_missing)
n1 live (backend_missing)
  -> There is none. Set DISPLAY.

n1 camera (device_missing)
  -> Connect one.

n2 live (permission_missing)
  -> Set DISPLAY.
`
	if told != want {
		t.Errorf("%s\nwant\n%s", told, want)
	}
}
