package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/job"
	"github.com/handrail-dev/handrail/gateway/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue is a queue whose time a test moves.
type queue struct {
	*job.Jobs
	t       *testing.T
	now     time.Time
	store   *store.Store
	packets []string
}

func open(t *testing.T) *queue {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Migrations: job.Migrations(), ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	q := &queue{t: t, store: s, now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)}
	q.Jobs, err = job.Open(job.Options{Store: s, Key: make([]byte, 32), Now: func() time.Time { return q.now },
		Record: func(_ *store.Tx, kind string, _ capabilities.PrincipalID, body any) error {
			q.packets = append(q.packets, fmt.Sprintf("%s %+v", kind, body))
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *queue) put(n api.NewJob) api.Job {
	q.t.Helper()
	if n.Lane == "" {
		n.Lane = "l"
	}
	one, err := q.Put(q.t.Context(), "alice", "alice", n)
	if err != nil {
		q.t.Fatal(err)
	}
	return one
}

// take returns the next job; one without an ID if there is none.
func (q *queue) take(worker string, fresh bool) api.Job {
	q.t.Helper()
	one, err := q.Take(q.t.Context(), "alice", api.TakeJob{Worker: worker, Fresh: fresh})
	if err != nil && capabilities.CodeOf(err) != capabilities.CodeNotFound {
		q.t.Fatal(err)
	}
	return one
}

func (q *queue) end(j api.Job, state string) api.Job {
	q.t.Helper()
	one, err := q.End(q.t.Context(), "alice", j.ID, api.JobWord{Claim: j.Claim, State: state, Result: "words", Calls: 2})
	if err != nil {
		q.t.Fatal(err)
	}
	if state != job.Queued && one.Calls != 2 {
		q.t.Errorf("its calls are lost: %+v", one)
	}
	return one
}

// TestJobsAreTakenInOrder: the highest priority first, then the oldest; one of a lane at a time;
// none before its time; and nobody else's.
func TestJobsAreTakenInOrder(t *testing.T) {
	q := open(t)
	low, high := q.put(api.NewJob{Text: "low"}), q.put(api.NewJob{Text: "high", Priority: 5})
	other := q.put(api.NewJob{Text: "other lane", Lane: "m", Priority: -5})
	later := q.put(api.NewJob{Text: "later", Lane: "n", Priority: 9, Due: q.now.Add(time.Minute)})
	if _, err := q.Take(t.Context(), "bob", api.TakeJob{Worker: "w", Fresh: true}); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error(err)
	}
	first := q.take("w", true)
	second := q.take("w2", false)
	if first.ID != high.ID || second.ID != other.ID {
		t.Errorf("took %q and %q", first.Text, second.Text)
	}
	if one := q.take("w3", false); one.ID != "" {
		t.Errorf("took %q while its lane works", one.Text)
	}
	q.end(first, job.Done)
	if one := q.take("w3", false); one.ID != low.ID {
		t.Errorf("took %q", one.Text)
	}
	q.now = q.now.Add(time.Minute)
	if one := q.take("w4", false); one.ID != later.ID && one.ID != other.ID {
		t.Errorf("took %q", one.Text)
	}
	for _, p := range q.packets {
		if strings.Contains(p, "low") || strings.Contains(p, "words") {
			t.Errorf("a packet has words: %s", p)
		}
	}
}

// TestAJobHasOneWorker: a worker that is not heard of for the time of a lease, or that starts anew,
// has lost its job; its old claim says nothing any more.
func TestAJobHasOneWorker(t *testing.T) {
	q := open(t)
	put := q.put(api.NewJob{Text: "x"})
	first := q.take("w", true)
	q.now = q.now.Add(job.Lease / 2)
	if _, err := q.Tell(t.Context(), "alice", first.ID, first.Claim, 1, "ROUTER_OUTPUT"); err != nil {
		t.Fatal(err)
	}
	q.now = q.now.Add(job.Lease * 3 / 4)
	if one := q.take("other", false); one.ID != "" {
		t.Fatal("taken while its worker is heard of")
	}
	q.now = q.now.Add(job.Lease)
	second := q.take("other", false)
	if second.ID != put.ID || second.Taken != 2 || second.Claim == first.Claim {
		t.Fatalf("%+v", second)
	}
	for _, claim := range []string{first.Claim, "", "x"} {
		if _, err := q.Tell(t.Context(), "alice", put.ID, claim, 0, ""); capabilities.CodeOf(err) != capabilities.CodeForbidden {
			t.Errorf("%q: %v", claim, err)
		}
		if _, err := q.End(t.Context(), "alice", put.ID, api.JobWord{Claim: claim, State: job.Done, Calls: 2}); capabilities.CodeOf(err) != capabilities.CodeForbidden {
			t.Errorf("%q: %v", claim, err)
		}
	}
	third := q.take("other", true)
	if third.ID != put.ID || third.Claim == second.Claim {
		t.Fatalf("a worker that starts anew has not its job: %+v", third)
	}
	if _, err := q.End(t.Context(), "bob", put.ID, api.JobWord{Claim: third.Claim, State: job.Done, Calls: 2}); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error(err)
	}
	if one := q.end(third, job.Done); one.State != job.Done || one.Result != "words" || one.Claim != "" {
		t.Errorf("%+v", one)
	}
	if list, err := q.List(t.Context(), "", 10); err != nil || len(list) != 1 || list[0].Claim != "" {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestAJobThatKillsItsWorkersFails: it is not taken for ever.
func TestAJobThatKillsItsWorkersFails(t *testing.T) {
	q := open(t)
	put := q.put(api.NewJob{Text: "x"})
	for range 100 {
		if q.take("w", true).ID == "" {
			break
		}
	}
	if one, err := q.Get(t.Context(), "alice", put.ID); err != nil || one.State != job.Failed || one.Taken > 30 {
		t.Errorf("%+v, %v", one, err)
	}
}

// Each change is heard: put, taken, a worker's word, and the end. A list leaves the pipelines out.
func TestEachChangeIsHeard(t *testing.T) {
	q := open(t)
	heard := func(what string, do func()) {
		t.Helper()
		moved := q.Moved()
		do()
		select {
		case <-moved:
		default:
			t.Errorf("nobody heard of what was %s", what)
		}
	}
	var one api.Job
	heard("put", func() { one = q.put(api.NewJob{Pipeline: "intent: file_task"}) })
	heard("taken", func() { one = q.take("w", false) })
	if one.Pipeline != "intent: file_task" || one.Text != "" {
		t.Errorf("%+v", one)
	}
	heard("said", func() {
		if _, err := q.Tell(t.Context(), "alice", one.ID, one.Claim, 1, "stage"); err != nil {
			t.Error(err)
		}
	})
	if list, err := q.List(t.Context(), "alice", 1); err != nil || len(list) != 1 || list[0].Pipeline != "" || list[0].Stage != "stage" {
		t.Errorf("%+v %v", list, err)
	}
	heard("ended", func() {
		if _, err := q.End(t.Context(), "alice", one.ID, api.JobWord{Claim: one.Claim, State: job.Done}); err != nil {
			t.Error(err)
		}
	})
	for _, n := range []api.NewJob{{Lane: "l"}, {Lane: "l", Pipeline: strings.Repeat("x", job.MaxText+1)}, {Lane: "l", Pipeline: "\xff"}} {
		if _, err := q.Put(t.Context(), "alice", "alice", n); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%.20q: %v", n.Pipeline, err)
		}
	}
}

// TestCancel: a job that waits is over at once, with its schedule; the worker of one that runs is
// told, and its end is a cancelled one, whatever it says; one that ended is forgotten.
func TestCancel(t *testing.T) {
	q := open(t)
	ctx := t.Context()
	waits := q.put(api.NewJob{Text: "x", Schedule: "@daily"})
	if one, err := q.Cancel(ctx, "alice", "alice", waits.ID); err != nil || one.State != job.Cancelled {
		t.Errorf("%+v, %v", one, err)
	}
	q.put(api.NewJob{Text: "y"})
	runs := q.take("w", true)
	if _, err := q.Cancel(ctx, "bob", "bob", runs.ID); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error(err)
	}
	if _, err := q.Cancel(ctx, "", "root", runs.ID); err != nil {
		t.Fatal(err)
	}
	if one, err := q.Tell(ctx, "alice", runs.ID, runs.Claim, 0, ""); err != nil || !one.Cancel {
		t.Errorf("%+v, %v", one, err)
	}
	if one := q.end(runs, job.Done); one.State != job.Cancelled {
		t.Errorf("%+v", one)
	}
	if _, err := q.Cancel(ctx, "alice", "alice", runs.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Get(ctx, "alice", runs.ID); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error(err)
	}
}

// TestSchedules: a job with a schedule is queued for its next time when a run ends, however it
// ended.
func TestSchedules(t *testing.T) {
	q := open(t)
	put := q.put(api.NewJob{Text: "x", Schedule: "30 7 * * *"})
	if want := time.Date(2026, 11, 29, 7, 30, 0, 0, time.UTC); !put.Due.Equal(want) {
		t.Fatalf("due %s", put.Due)
	}
	for run := 1; run <= 3; run++ {
		if one := q.take("w", false); one.ID != "" {
			t.Fatalf("before its time: %+v", one)
		}
		q.now = put.Due.Add(time.Hour)
		one := q.take("w", false)
		if one.Run != run {
			t.Fatalf("%+v", one)
		}
		put = q.end(one, []string{job.Done, job.Failed}[run%2])
		if put.State != job.Queued || put.Due.Sub(q.now) != 23*time.Hour || put.Result != "words" {
			t.Fatalf("%+v", put)
		}
	}
	for _, bad := range []string{"* * *", "61 * * * *", "0 0 31 2 *", strings.Repeat("1,", 99) + "1 * * * *", "TZ=nowhere * * * * *"} {
		if _, err := q.Put(t.Context(), "alice", "alice", api.NewJob{Text: "x", Lane: "l", Schedule: bad}); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestAPutIsOneJob: the same request again is the same job, and another text under its ID is
// refused; what is out of bounds is, too.
func TestAPutIsOneJob(t *testing.T) {
	q := open(t)
	first := q.put(api.NewJob{Text: "x", Request: "r"})
	if again := q.put(api.NewJob{Text: "x", Request: "r"}); again.ID != first.ID {
		t.Errorf("%s and %s", first.ID, again.ID)
	}
	if _, err := q.Put(t.Context(), "alice", "alice", api.NewJob{Text: "y", Lane: "l", Request: "r"}); capabilities.CodeOf(err) != capabilities.CodeRequestIDConflict {
		t.Error(err)
	}
	for _, n := range []api.NewJob{
		{Lane: "l"}, {Text: "x"}, {Text: strings.Repeat("x", job.MaxText+1), Lane: "l"}, {Text: "\xff", Lane: "l"}, {Text: "x", Lane: "l", Priority: 101},
		{Text: "x", Lane: "a\nb"}, {Text: "x", Lane: "l", Request: "a\nb"},
	} {
		if _, err := q.Put(t.Context(), "alice", "alice", n); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%.40v: %v", n, err)
		}
	}
}

// TestNoJobIsLostOrDoneTwice: whatever workers do, die at or say late, each job ends exactly once,
// and never has two that may end it.
func TestNoJobIsLostOrDoneTwice(t *testing.T) {
	q := open(t)
	rng := rand.New(rand.NewPCG(35, 2))
	const jobs = 40
	done := map[string]int{}
	for i := range jobs {
		q.put(api.NewJob{Text: fmt.Sprint(i), Lane: capabilities.LaneID(fmt.Sprint("l", i%5)), Priority: rng.IntN(3)})
	}
	var held []api.Job // claims, old ones too
	open := func() (n int) {
		list, err := q.List(t.Context(), "alice", jobs)
		if err != nil || len(list) != jobs {
			t.Fatalf("%d jobs, %v", len(list), err)
		}
		for _, j := range list {
			if j.State == job.Queued || j.State == job.Running {
				n++
			} else if want := map[string]int{job.Done: 1}[j.State]; done[j.ID] != want {
				t.Fatalf("%+v, and it was done %d times", j, done[j.ID])
			}
		}
		return n
	}
	for step := 0; step%50 != 0 || open() > 0; step++ {
		if step > 20_000 {
			t.Fatalf("%d of %d are open", open(), jobs)
		}
		switch rng.IntN(4) {
		case 0:
			if one := q.take(fmt.Sprint("w", rng.IntN(3)), rng.IntN(30) == 0); one.ID != "" {
				held = append(held, one)
			}
		case 1:
			q.now = q.now.Add(time.Duration(rng.Int64N(int64(job.Lease / 4))))
		default:
			if len(held) == 0 {
				continue
			}
			j := held[max(0, len(held)-1-rng.IntN(8))]
			if rng.IntN(3) == 0 {
				_, _ = q.Tell(t.Context(), "alice", j.ID, j.Claim, 1, "")
				continue
			}
			state := []string{job.Done, job.Done, job.Queued}[rng.IntN(3)]
			_, err := q.End(t.Context(), "alice", j.ID, api.JobWord{Claim: j.Claim, State: state, Calls: 2})
			if err == nil && state == job.Done {
				done[j.ID]++
			}
			var refused *capabilities.Error
			if err != nil && (!errors.As(err, &refused) || refused.Code != capabilities.CodeForbidden) {
				t.Fatal(err)
			}
		}
	}
	for id, n := range done {
		if n != 1 {
			t.Errorf("%s was done %d times", id, n)
		}
	}
}

// TestJobsLieSealed: the store has no word of a job, one that an earlier program left in the clear
// is sealed when the queue begins, and a row in another's place cannot be read.
func TestJobsLieSealed(t *testing.T) {
	q := open(t)
	one, two := q.put(api.NewJob{Text: "the private words"}), q.put(api.NewJob{Text: "others", Lane: "m"})
	body := func(id string) (text string) {
		if err := q.store.Read().QueryRowContext(t.Context(), `SELECT body FROM jobs WHERE id = $1`, id).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	write := func(id, text string) {
		if err := q.store.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Exec(`UPDATE jobs SET body = $2 WHERE id = $1`, id, text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if text := body(one.ID); strings.Contains(text, "private") || strings.Contains(text, one.ID) {
		t.Errorf("it lies there as %q", text)
	}
	clear, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	write(one.ID, string(clear))
	ctx, end := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- q.Run(ctx) }()
	for strings.Contains(body(one.ID), "private") {
		runtime.Gosched()
	}
	end()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if got, err := q.Get(t.Context(), "alice", one.ID); err != nil || got.Text != one.Text {
		t.Errorf("%+v, %v", got, err)
	}
	write(one.ID, body(two.ID))
	if got, err := q.Get(t.Context(), "alice", one.ID); err == nil {
		t.Errorf("another's row was read: %+v", got)
	}
}

// TestAJobInsideACallIsTakenOnce: its worker's death ends it, and so does the end of the program
// that its call ran in.
func TestAJobInsideACallIsTakenOnce(t *testing.T) {
	q := open(t)
	put := func() api.Job {
		one, err := q.PutInside(t.Context(), "alice", job.Inside{Parent: "c1", Under: "l", Tool: "tool.sub-agent.x", Text: "x"})
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	one := put()
	if other, err := q.Take(t.Context(), "alice", api.TakeJob{Worker: "w", Under: "m"}); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Fatalf("%+v %v", other, err)
	}
	if taken, err := q.Take(t.Context(), "alice", api.TakeJob{Worker: "w", Under: "l"}); err != nil || taken.ID != one.ID || taken.Parent != "c1" {
		t.Fatalf("%+v %v", taken, err)
	}
	q.now = q.now.Add(2 * job.Lease)
	if other := q.take("w2", false); other.ID != "" {
		t.Errorf("taken again: %+v", other)
	}
	if got, err := q.Get(t.Context(), "alice", one.ID); err != nil || got.State != job.Failed {
		t.Errorf("%+v %v", got, err)
	}
	two := put()
	q.now = q.now.Add(time.Second)
	later, err := job.Open(job.Options{Store: q.store, Key: make([]byte, 32), Now: func() time.Time { return q.now }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- later.Run(ctx) }()
	for {
		got, err := later.Get(t.Context(), "alice", two.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.State == job.Cancelled {
			break
		}
		runtime.Gosched()
	}
	end()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}
