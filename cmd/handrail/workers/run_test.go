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

// TestStagesStandBetweenWords: a stage that is told among the words of a model has a line of its
// own, and the words are known as said; those before a call are not (S2-45).
func TestStagesStandBetweenWords(t *testing.T) {
	var out strings.Builder
	words := newSpeech(&out)
	tell := words.between(tellStages(&out, true))
	words.tell("I look.")
	tell(worker.Event{Stage: worker.StageToolCall, Body: worker.Called{Tool: "tool.fs.list"}})
	if words.ends() {
		t.Error("words before a call count as the answer")
	}
	words.tell("It has ")
	words.tell("one file.")
	tell(worker.Event{Stage: worker.StageResponse, Body: worker.Responded{}})
	tell(worker.Event{Stage: worker.StageCleanup, Body: worker.Cleaned{}})
	if !words.ends() || words.ends() {
		t.Error("the answer is not known as said, or twice")
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 5 || lines[0] != "I look." || !strings.Contains(lines[1], "EXECUTOR_TOOL_CALL") || lines[2] != "It has one file." ||
		!strings.Contains(lines[3], "EXECUTOR_RESPONSE") || !strings.Contains(lines[4], "POSTHOOK_CLEANUP") {
		t.Errorf("%q", lines)
	}
}
