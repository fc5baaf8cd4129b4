package win32

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/wine"
)

// The tests for Windows, run by Wine on a desktop of their own, where xdotool
// plays the person: what it does are events of the X server's devices to Wine.
func TestUnderWine(t *testing.T) {
	wine.Need(t)
	d := desk.StartX(t, desk.Options{})
	ask := filepath.Join(t.TempDir(), "person")
	w := wine.Start(t, d.Command)
	exe := w.Build(t, ".")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); t.Context().Err() == nil; <-tick.C {
			if _, err := os.Stat(ask); err == nil {
				d.Try("xdotool", "mousemove", "300", "200", "mousemove", "310", "210", "key", "ctrl+alt+k")
			}
		}
	}()
	run := w.Command(exe, "-test.v", "-test.timeout=10m")
	run.Env = append(run.Env, "HANDRAIL_TEST_PERSON="+wine.Path(ask))
	out, err := run.CombinedOutput()
	passed := func(name string) bool { return strings.Contains(string(out), "--- PASS: "+name) }
	if err != nil || !passed("TestPerson") || !passed("TestGrabAgreesWithAnotherLibrary") || !passed("TestDesktop/typing") || !passed("TestLocate") || !passed("TestOwnLocation") {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) { // what Wine lacks, in its words
		if strings.Contains(line, "no UI Automation") || strings.Contains(line, "UI Automation of this Windows is not whole") || strings.Contains(line, "no location service") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
