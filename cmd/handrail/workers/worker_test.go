package workers

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// TestAPanicFailsItsJobAlone: a defect that one job meets is that job's failure, and its place is in
// the worker's log.
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
