package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
)

// TestJobsAreDoneOnce: workers of the built program are killed at random points. Each job is done
// in the end, and none of its calls was carried out twice.
func TestJobsAreDoneOnce(t *testing.T) { jobsAreDoneOnce(t, 6) }

func TestJobsAreDoneOnceAtLength(t *testing.T) {
	t.Parallel()
	jobsAreDoneOnce(t, 200)
}

func jobsAreDoneOnce(t *testing.T, kills int) {
	w := newWorked(t)
	jobs := 12 + kills/2
	life := 400 * time.Millisecond
	for i := range jobs {
		must(t, os.WriteFile(filepath.Join(w.work, fmt.Sprintf("job%d.txt", i)), []byte("the answer"), 0o600))
		w.does("jobs", "add", "--request-id", fmt.Sprint("r", i), fmt.Sprintf("/file read job%d.txt", i))
		if i == 0 { // of two workers one lives to do a job, or a slow machine has one taken until it counts as failed
			began := time.Now()
			w.does("worker", "--offline", "--name", "w", "--once")
			life = max(life, 2*time.Since(began))
		}
	}
	rng := rand.New(rand.NewPCG(35, 200))
	done := func() int { return strings.Count(w.does("jobs", "--limit", "500", "--json"), `"state":"done"`) }
	for range kills {
		cmd := exec.CommandContext(t.Context(), w.program, "worker", "--offline", "--name", "w")
		cmd.Env = w.env
		must(t, cmd.Start())
		time.Sleep(time.Duration(rng.Int64N(int64(life)))) // at any moment of a job's life
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
	out := w.does("worker", "--offline", "--name", "w", "--once")
	if n := done(); n != jobs {
		t.Fatalf("%d of %d jobs are done: %s\n%s", n, jobs, out, w.does("jobs", "--limit", "500"))
	}
	ran := map[string]int{}
	lines := json.NewDecoder(strings.NewReader(w.does("calls", "--json", "--limit", "200")))
	for lines.More() {
		var c api.Call
		must(t, lines.Decode(&c))
		if path := regexp.MustCompile(`job[0-9]+\.txt`).FindString(c.Phrase); path != "" && c.Tool == "tool.fs.read" {
			ran[path]++
		}
	}
	if len(ran) != jobs {
		t.Errorf("%d of %d jobs made their call", len(ran), jobs)
	}
	for path, n := range ran {
		if n != 1 {
			t.Errorf("%s was read %d times", path, n)
		}
	}
}

// TestAJobIsCancelledAndRepeated: a job that waits is cancelled, one with a schedule waits for its
// next time, one that cannot be understood fails with why.
func TestAJobIsCancelledAndRepeated(t *testing.T) {
	w := newWorked(t)
	waits := strings.Fields(w.does("jobs", "add", "--schedule", "@yearly", "/file read a.txt"))[0]
	low := strings.Fields(w.does("jobs", "add", "/file read a.txt"))[0]
	high := strings.Fields(w.does("jobs", "add", "--priority", "7", "what"))[0]
	out := w.does("worker", "--offline", "--once")
	if !strings.Contains(out, high+" failed") || strings.Index(out, low+" done") < strings.Index(out, high+" failed") {
		t.Errorf("worker said %s", out)
	}
	if out := w.does("jobs", "show", low); !strings.Contains(out, "The rent is 700.") || !strings.Contains(out, ", 1 call\n") {
		t.Error(out)
	}
	if out := w.does("jobs", "cancel", waits); !strings.Contains(out, "is cancelled") {
		t.Error(out)
	}
	if out := w.does("jobs", "cancel", low); !strings.Contains(out, "is forgotten") {
		t.Error(out)
	}
	if out := w.does("jobs"); strings.Contains(out, low) || !strings.Contains(out, "cancelled") {
		t.Error(out)
	}
	for _, kind := range []string{"worker.job.queued", "worker.job.taken", "worker.job.ended", "worker.job.cancelled"} {
		if out := w.does("ledger", "show", "--kind", kind, "--json"); strings.Contains(out, "read a.txt") || !strings.Contains(out, "job_") {
			t.Errorf("what the ledger has of %s: %s", kind, out)
		}
	}
	if out, code := w.tries("", "jobs", "add", "--schedule", "every day", "x"); code == 0 || !strings.Contains(out, "cron") {
		t.Errorf("%d %s", code, out)
	}
}
