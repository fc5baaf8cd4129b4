package job_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/job"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
)

// Of several gateways each wakes its workers for the jobs of all, a job is taken at one, and the
// jobs of calls of one that is out end.
func TestGatewaysShareJobs(t *testing.T) {
	url := store.URL(pgtest.Start(t).URL())
	var all []*job.Jobs
	var stores []*store.Store
	for range 2 {
		s, err := store.Open(t.Context(), store.Options{
			URL: url, Migrations: job.Migrations(), Lease: 5 * time.Second, Shared: map[string]bool{"jobs": true},
		})
		must(t, err)
		j, err := job.Open(job.Options{Store: s, Key: make([]byte, 32)})
		must(t, err)
		s.Watch(j.Again, job.Tables...)
		s.OnGone(j.GoneIn)
		ctx, cancel := context.WithCancel(context.Background())
		var ran sync.WaitGroup
		ran.Go(func() { _ = s.Run(ctx) })
		t.Cleanup(func() { cancel(); ran.Wait(); _ = s.Close() })
		all, stores = append(all, j), append(stores, s)
	}
	take := func(at int) (api.Job, error) {
		return all[at].Take(t.Context(), "alice", api.TakeJob{Worker: []string{"w0", "w1"}[at]})
	}
	// One waits at the second gateway for what comes in at the first.
	woken := make(chan api.Job, 1)
	waits := all[1].Changed()
	go func() {
		for {
			one, err := take(1)
			if err == nil {
				woken <- one
				return
			}
			select {
			case <-waits:
				waits = all[1].Changed()
			case <-t.Context().Done():
				return
			}
		}
	}()
	put, err := all[0].Put(t.Context(), "alice", "alice", api.NewJob{Text: "a", Lane: "l"})
	must(t, err)
	got := <-woken
	if got.ID != put.ID {
		t.Fatalf("%+v", got)
	}
	if _, err := take(0); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("taken twice: %v", err)
	}
	_, err = all[0].End(t.Context(), "alice", got.ID, api.JobWord{Claim: got.Claim, State: job.Done}) // at another gateway
	must(t, err)
	// Both ask at once for one job, again and again.
	for range 20 {
		_, err := all[0].Put(t.Context(), "alice", "alice", api.NewJob{Text: "b", Lane: "l"})
		must(t, err)
		var both sync.WaitGroup
		taken := make([]api.Job, 2)
		for at := range taken {
			both.Go(func() { taken[at], _ = take(at) })
		}
		both.Wait()
		if (taken[0].ID == "") == (taken[1].ID == "") {
			t.Fatalf("one job, taken as %q and %q", taken[0].ID, taken[1].ID)
		}
		one := taken[0]
		if one.ID == "" {
			one = taken[1]
		}
		_, err = all[0].End(t.Context(), "alice", one.ID, api.JobWord{Claim: one.Claim, State: job.Done})
		must(t, err)
	}
	// The job of a call at the first gateway, taken at the second.
	in, err := all[0].PutInside(t.Context(), "alice", job.Inside{Parent: "c", Under: "l", Tool: "tool.a.b", Text: "c"})
	must(t, err)
	if home, err := all[1].Home(t.Context(), "alice", in.ID); err != nil || home != stores[0].Member() {
		t.Errorf("%q %v", home, err)
	}
	if home, err := all[1].Home(t.Context(), "bob", in.ID); err != nil || home != "" {
		t.Errorf("somebody else's: %q %v", home, err)
	}
	if one, err := take(1); err != nil || one.ID != in.ID {
		t.Errorf("%+v %v", one, err)
	}
	must(t, stores[0].Close())
	for ended := false; !ended; {
		moved := all[1].Moved()
		one, err := all[1].Get(t.Context(), "alice", in.ID)
		must(t, err)
		if ended = one.State == job.Cancelled; !ended {
			<-moved
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
