package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
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
	jobIsFollowed(t, w)
	if out, code := w.tries("", "jobs", "add", "--schedule", "every day", "x"); code == 0 || !strings.Contains(out, "cron") {
		t.Errorf("%d %s", code, out)
	}
}

// jobIsFollowed: a job takes the steps of a pipeline, and whoever watches it hears of each change
// until it has ended.
func jobIsFollowed(t *testing.T, w *worked) {
	t.Helper()
	file := filepath.Join(w.work, "rent.yaml")
	must(t, os.WriteFile(file, []byte("intent: file_task\nsteps:\n  - {id: read, tool: tool.fs.read, with: {path: {from: /task}}}\n"+
		"  - {id: rent, code: lines, with: {of: {from: /steps/read/content}, with: rent}}\noutput: {from: /steps/rent}\n"), 0o600))
	job := strings.Fields(w.does("jobs", "add", "--pipeline", file, "a.txt"))[0]
	watch := exec.CommandContext(t.Context(), w.program, "jobs", "watch", job)
	watch.Env = w.env
	lines, err := watch.StdoutPipe()
	must(t, err)
	must(t, watch.Start())
	read := bufio.NewReader(lines)
	hears := func(want string) {
		t.Helper()
		if line, err := read.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Fatalf("it says %q, not %q: %v", line, want, err)
		}
	}
	hears("queued for ")
	token, err := os.ReadFile(filepath.Join(filepath.Dir(w.program), "site", "gateway", "agent.token"))
	must(t, err)
	c, err := client.New(w.url, client.NewToken(string(token)))
	must(t, err)
	one, err := c.TakeJob(t.Context(), api.TakeJob{Worker: "hand"})
	must(t, err)
	hears("running by hand, 0 calls\n")
	_, err = c.TellJob(t.Context(), job, api.JobWord{Claim: one.Claim, Calls: 1, Stage: "EXECUTOR_TOOL_CALL"})
	must(t, err)
	hears("running by hand, at EXECUTOR_TOOL_CALL, 1 call\n")
	_, err = c.TellJob(t.Context(), job, api.JobWord{Claim: one.Claim, State: api.JobQueued})
	must(t, err)
	hears("queued for ")
	if out := w.does("worker", "--offline", "--once"); !strings.Contains(out, job+" done") {
		t.Error(out)
	}
	rest, err := io.ReadAll(read)
	must(t, err)
	if err := watch.Wait(); err != nil || !strings.Contains(string(rest), "done, 1 call\n") || !strings.Contains(string(rest), "The rent is 700.") {
		t.Errorf("%v: %s", err, rest)
	}
	if out := w.does("jobs", "show", job); !strings.Contains(out, "along a pipeline of 5 lines") {
		t.Error(out)
	}
	must(t, os.WriteFile(file, []byte("intent: file_task\nsteps:\n  - {id: run, tool: tool.fs.bash, with: {command: id}}\noutput: x\n"), 0o600))
	if out, code := w.tries("", "jobs", "add", "--pipeline", file); code == 0 || !strings.Contains(out, "steps/0/tool") {
		t.Errorf("%d %s", code, out)
	}
}
