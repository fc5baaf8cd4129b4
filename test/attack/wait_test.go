package attack

import (
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/site"
)

// until waits until ok holds.
func (a *arena) until(what string, ok func() bool) {
	a.t.Helper()
	until(a.t, what, ok)
}

// until waits until ok holds, and asks ever less often. A test in which that takes too long, and
// nothing else is wrong, may be run again (test/rerun): nothing got through.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	pause := 2 * time.Millisecond
	for end := time.Now().Add(site.Within); !ok(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("slow: waited in vain for %s", what)
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// inTime fails a test whose call ran out of time, and so did nothing that is of interest here.
func inTime(t *testing.T, tool capabilities.ToolID, r capabilities.Result) {
	t.Helper()
	if r.Code == capabilities.CodeDeadlineExceeded {
		t.Fatalf("slow: %s: %s (%s)", tool, r.Message, r.Hint)
	}
}
