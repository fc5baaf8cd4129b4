package workers

import (
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/worker"
)

// TestStagesArePrinted: with --debug-routing each stage is a line with its name and what it
// did, whatever a page put into it; without, nobody is told (S2-45).
func TestStagesArePrinted(t *testing.T) {
	var out strings.Builder
	tell := tellStages(&out, true)
	tell(worker.Event{Stage: worker.StageRouter, At: time.Unix(0, 0), Body: worker.Routed{}})
	tell(worker.Event{Stage: worker.StageResponse, At: time.Unix(1, 0), Body: worker.Responded{Text: "a\nb\x1b[2J\u202e", RoundTrips: 2}})
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "ROUTER_OUTPUT") || !strings.Contains(lines[1], `EXECUTOR_RESPONSE  {"text":"a`) {
		t.Errorf("%q", lines)
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e") {
		t.Errorf("%q moves the terminal", out.String())
	}
	if tellStages(&out, false) != nil {
		t.Error("somebody is told without the flag")
	}
}
