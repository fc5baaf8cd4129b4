package sandbox_test

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/test/wine"
)

// The tests for Windows, run by Wine, which has Job Objects and no AppContainer: what stands there
// it is told, and every class is refused.
func TestUnderWine(t *testing.T) {
	wine.Need(t)
	w := wine.Start(t, nil)
	out, err := w.Command(w.Build(t, "."), "-test.v", "-test.timeout=10m").CombinedOutput()
	passed := func(name string) bool { return strings.Contains(string(out), "--- PASS: "+name) }
	if err != nil || !passed("TestJob") || !passed("TestJobEndsWithItsHandle") || !passed("TestFilesAreMeasured") || !passed("TestRelayProcess") || !passed("TestRefused") {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) { // what Wine has, in its words
		if strings.Contains(line, "TRIALS") || strings.Contains(line, "CLASS") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
