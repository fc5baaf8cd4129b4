package workers

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// TestACutOffTurnFails: a turn that was cut off is no job that is done, and no task that ended
// well; its reason is its words, and what it said before comes behind it.
func TestACutOffTurnFails(t *testing.T) {
	denied := capabilities.Errorf(capabilities.CodeDeniedByPolicy, "no")
	for name, c := range map[string]struct {
		out          worker.Outcome
		state, words string
		exit         int
	}{
		"an answer":         {worker.Outcome{Text: "700"}, api.JobDone, "700", terminal.ExitOK},
		"no answer":         {worker.Outcome{Stopped: "12 rounds are enough"}, api.JobFailed, "The turn was cut off: 12 rounds are enough.", terminal.ExitFailed},
		"words before":      {worker.Outcome{Stopped: "budget", Text: "Let me"}, api.JobFailed, "The turn was cut off: budget.\nLet me", terminal.ExitFailed},
		"a call was denied": {worker.Outcome{Stopped: "budget", Last: denied}, api.JobFailed, "The turn was cut off: budget.", terminal.ExitFailed},
		"only denied":       {worker.Outcome{Text: "no", Last: denied}, api.JobFailed, "no", terminal.ExitDenied},
	} {
		if w := jobWord(&api.Job{}, c.out, nil, 0); w.State != c.state || w.Result != c.words || (w.Code == "") != (c.state == api.JobDone) {
			t.Errorf("%s: the job is %+v", name, w)
		}
		exit := terminal.ExitOK
		if err := ending(&cobra.Command{}, &c.out); err != nil {
			exit = terminal.ExitCode(err)
		}
		if exit != c.exit {
			t.Errorf("%s: exit code %d, not %d", name, exit, c.exit)
		}
	}
}

// TestAPanicFailsItsJobAlone: a defect that one job meets is that job's failure, and its place is
// in the worker's log.
func TestAPanicFailsItsJobAlone(t *testing.T) {
	var log strings.Builder
	s := &jobService{cmd: &cobra.Command{}}
	s.cmd.SetErr(&log)
	j := &api.Job{ID: "job_1", Text: "read a.txt"}
	out, err := s.along(t.Context(), &conversation{}, j) // it has no engine
	w := jobWord(j, out, err, 0)
	if w.State != api.JobFailed || w.Code != capabilities.CodeInternal || !strings.Contains(w.Result, "the worker crashed") {
		t.Errorf("%+v", w)
	}
	if !strings.HasPrefix(log.String(), "job_1: panic: ") || !strings.Contains(log.String(), "worker_test.go") {
		t.Errorf("the log has %q", log.String())
	}
}

// TestAFailedJobSaysWhatFailed: the words of a failed job are the worker's, why the call failed,
// which call it was, and what can be done about it, each once.
func TestAFailedJobSaysWhatFailed(t *testing.T) {
	busy := capabilities.Errorf(capabilities.CodeOverloaded, "The node is busy.").WithHint("Wait.")
	calls := []worker.Called{{Tool: "tool.fs.list", Status: "ok"}, {Tool: "tool.fs.read", Status: "error", Code: capabilities.CodeOverloaded}}
	for said, want := range map[string]string{
		"I could not read it.":     "I could not read it.\nThe node is busy.\nThe call that failed: tool.fs.read (overloaded).\nWait.",
		"The node is busy.\nWait.": "The node is busy.\nWait.\nThe call that failed: tool.fs.read (overloaded).",
		"":                         "The node is busy.\nThe call that failed: tool.fs.read (overloaded).\nWait.",
	} {
		w := jobWord(&api.Job{}, worker.Outcome{Text: said, Last: busy, Calls: calls}, nil, 2)
		if w.State != api.JobFailed || w.Code != capabilities.CodeOverloaded || w.Result != want {
			t.Errorf("%q: %+v", said, w)
		}
	}
}
